"""Nothing waits for another program without a limit."""

import ast
from pathlib import Path

import pytest

import kernelblaster
from kernelblaster.devices import toolchain
from kernelblaster.errors import NoCompiler
from kernelblaster.export import launcher
from kernelblaster.ptx import build

SOURCES = Path(kernelblaster.__file__).parent
WAITING = {"run", "call", "check_call", "check_output"}
LIVE = {
    "processes/leashed.py": "under a time limit, on a leash",
    "devices/recorder.py": "every answer has a deadline; it ends with this process",
    "devices/player_process.py": "every answer has a deadline; it ends with its socket",
    "serve/resuming.py": "a search of its own, which outlives the server; it is asked, not waited for",
    "fleet/node.py": "starting and ending it have limits; it is meant to outlive this process",
    "testing/postgres_server.py": "starting it has a limit; it ends by a signal that it cannot put off",
    "confinement/tool_starter.py": "starting, every answer and ending have limits",
}
"""Where processes are started that live beside this one, and what ends the waiting for them."""


def test_programs_have_limits() -> None:
    for source in sorted(SOURCES.rglob("*.py")):
        name, text = str(source.relative_to(SOURCES)), source.read_text()
        for node in ast.walk(ast.parse(text)) if "subprocess." in text else ():
            if not isinstance(node, ast.Call) or not ast.unparse(node.func).startswith("subprocess."):
                continue
            called = ast.unparse(node.func).removeprefix("subprocess.")
            limited = any(keyword.arg == "timeout" for keyword in node.keywords)
            assert called not in WAITING or limited, f"{name}:{node.lineno} waits without a limit"
            assert called != "Popen" or name in LIVE, f"{name}:{node.lineno} starts a process"


@pytest.fixture
def endless(tmp_path: Path) -> str:
    """A compiler that never answers, nor does what it starts."""
    program = tmp_path / "compiler"
    program.write_text("#!/bin/sh\nsleep 600 & wait\n")
    program.chmod(0o755)
    return str(program)


def test_a_compiler_that_does_not_answer_is_no_compiler(
    endless: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELBLASTER_NVCC", endless)
    monkeypatch.setattr(toolchain, "LIMIT_S", 0.2)
    with pytest.raises(NoCompiler, match=r"--version did not answer in 0.2 s"):
        toolchain.toolchain.__wrapped__()
    monkeypatch.setattr(build, "VERSION_LIMIT_S", 0.2)
    monkeypatch.setattr(build.shutil, "which", lambda name: endless)
    with pytest.raises(NoCompiler, match=r"-v did not answer in 0.2 s"):
        build.machine_library()


def test_an_exported_kernel_is_not_compiled_for_ever(endless: str, tmp_path: Path) -> None:
    problem = launcher._compile(endless, "", "sm_90a", tmp_path / "cache" / "kernel.so", limit_s=0.2)
    assert problem == "nvcc did not finish in 0.2 s" and not list((tmp_path / "cache").iterdir())
