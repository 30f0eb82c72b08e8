"""NVIDIA's tools are started for a confined process by another one, which starts nothing else."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelblaster.confinement import tool_starter
from kernelblaster.confinement.confine import lacking

PROGRAM = """
import json, os, socket, sys, tempfile
from pathlib import Path
from kernelblaster.confinement.confine import Needs, confine
from kernelblaster.confinement.tool_starter import start_tool
from kernelblaster.errors import DeviceLost
from kernelblaster.settings import mark_confined

work = Path(sys.argv[1])
mark_confined(work / "results", work / "scratch")
tempfile.tempdir = None
own = {"programs": (work / "programs",), "writable": (work / "scratch",), "readable": (work / "ncu",)}
confine(Needs(**own, gpu=True))
folder = work / "scratch" / "folder"
folder.mkdir()
listening = socket.socket(socket.AF_UNIX)
listening.bind(str(folder / "socket"))
listening.listen()
player, path = str(work / "programs" / "player"), str(folder / "socket")


def started(command, folder=folder):
    with open(folder / "output", "w+b") as output:
        try:
            tool = start_tool(command, folder, output.fileno())
        except DeviceLost as error:
            return str(error).partition(": ")[2]
        listening.settimeout(20)
        connection = listening.accept()[0]
        said = connection.recv(100).decode()
        assert tool.poll() is None
        connection.close()
        tool.wait(20)
        assert tool.poll() == 0
        tool.kill()
        output.seek(0)
        return said + output.read().decode()


def outcome(code):
    try:
        exec(code, globals())
    except OSError as error:
        return error.strerror
    return "done"


starter = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()[0]
ASKED = json.loads(sys.argv[2])
ncu = str(work / "ncu")
print(json.dumps([
    started([ncu, "--csv", "--metrics", "a.sum,b", player, "1", path]),
    *(outcome(code) for code in ASKED),
    started(["/bin/sh", "-c", "true", player, path]),
    started([ncu, "--csv", "/bin/sh", "1", path]),
    started([ncu, "--script", "x", player, "1", path]),
    started([ncu, "--page", "../x", player, "1", path]),
    started([ncu, player, "-x", path]),
    started([ncu, player, "1", "/elsewhere/socket"]),
    started([ncu, player, player, "1", path]),
    started([ncu, player, "1", str(work / "socket")], work / "scratch"),
]))
"""
NAMES_A_THREAD = "import threading; open(f'/proc/self/task/{threading.get_native_id()}/comm', 'w').write('x')"
AS_CUDA_DOES = (  # its driver, when it starts: in this process and in those that it starts
    NAMES_A_THREAD,
    f"import subprocess; subprocess.run([sys.executable, '-c', {NAMES_A_THREAD!r}], check=True)",
    "socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).bind(chr(0) + f'cuda-uvmfd-{os.getpid()}')",
)
REFUSED = (
    "open('/proc/sys/kernel/core_pattern', 'r+')",
    "open('/proc/irq/default_smp_affinity', 'r+')",
    "open(f'/proc/{starter}/mem', 'r+b', 0)",
    "open(f'/proc/{os.getppid()}/mem', 'r+b', 0)",
)
PLAYER = """#!/bin/sh
exec {python} -c '
import socket, sys
channel = socket.socket(socket.AF_UNIX)
channel.connect(sys.argv[1])
channel.sendall(b"connected ")
channel.recv(1)
' "$2"
"""


def test_a_tool_with_a_player_of_ours_is_started_and_nothing_else(tmp_path: Path) -> None:
    if lacking():
        pytest.skip(lacking())
    for folder in ("programs", "scratch", "results", "tools"):
        (tmp_path / folder).mkdir()
    files = {"programs/player": PLAYER.format(python=sys.executable), "tools/ncu": TOOL}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    program = PROGRAM.replace('work / "ncu"', 'work / "tools" / "ncu"')
    path = f"{tmp_path / 'tools'}:{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path), json.dumps(AS_CUDA_DOES + REFUSED)],
        env={"PATH": path, "HOME": str(tmp_path), "PYTHONPATH": str(Path("src").absolute())},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    works, *outcomes = json.loads(done.stdout)
    assert works == "connected the tool's words\n"
    assert outcomes[: len(AS_CUDA_DOES)] == ["done"] * len(AS_CUDA_DOES)
    del outcomes[: len(AS_CUDA_DOES)]
    of_system, of_starter = outcomes[: len(REFUSED)], outcomes[len(REFUSED) :]
    assert set(of_system) <= {"Permission denied", "Read-only file system"}, of_system
    assert of_starter and all("was not started" in words for words in of_starter)


TOOL = """#!/bin/sh
while [ "${1#--}" != "$1" ] || [ "${1#/}" = "$1" ]; do shift; done
"$@"
echo "the tool's words"
"""


def test_options_name_no_files() -> None:
    assert tool_starter.OPTION.fullmatch("--csv") and tool_starter.OPTION.fullmatch("dram__bytes.sum,x")
    for word in ("--export", "../x", "/x", "-o", "--csv=x", "a b", ""):
        assert not tool_starter.OPTION.fullmatch(word)
