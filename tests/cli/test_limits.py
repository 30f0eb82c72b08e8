"""Where a machine, or what a process may use of it, is too small: one sentence, and never a traceback."""

import errno
import subprocess
import sys

import pytest

from kernelblaster.cli import start
from kernelblaster.shortage import shortage


def command(limits: str) -> "subprocess.CompletedProcess[str]":
    words = f"ulimit {limits}; exec {sys.executable} -m kernelblaster kb stats --kb /nowhere/kb.db"
    return subprocess.run(["sh", "-c", words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ("-n 16", "may open 16 files at once, and needs 256"),
        ("-v 600000", "ulimit -v"),
        ("-S -n 16", "no such"),
    ],
)
def test_a_limit_that_is_too_low_is_one_sentence(limits: str, message: str) -> None:
    """And one that this process may raise is raised."""
    done = command(limits)
    assert done.returncode == 2 and message in done.stderr
    assert "Traceback" not in done.stderr and done.stderr.count("\n") == 1


def test_a_machine_on_which_nothing_can_be_written_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(start.tempfile, "gettempdir", nowhere)
    start.prepare()


def test_the_command_starts_without_torch() -> None:
    words = "import sys, kernelblaster.cli.main; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", words], check=False).returncode == 0


def test_what_is_short_is_named() -> None:
    assert "/x: the disk is full" in str(shortage(OSError(errno.ENOSPC, "No space left", "/x")))
    assert "ulimit -n" in str(shortage(OSError(errno.EMFILE, "Too many open files")))
    assert "ulimit -v" in str(shortage(MemoryError()))
    assert "ulimit -v" in str(shortage(RuntimeError("unable to mmap 5 bytes: Cannot allocate memory (12)")))
    nowhere = FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")
    assert "TMPDIR" in str(shortage(nowhere))
    assert shortage(RuntimeError("anything else")) is None
    assert shortage(OSError(errno.ENOENT, "No such file")) is None
