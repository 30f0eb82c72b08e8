"""Starts NVIDIA's tools (ncu, compute-sanitizer) for a confined process. These tools talk to the profiled
program over sockets, which a process that runs the code of task files may not connect. So a small process
starts them: the starter, confined to the same files but without the filter of system calls. It starts nothing
else, and checks the tools' options."""

import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from kernelblaster.errors import DeviceLost
from kernelblaster.processes.parent import bind_to_parent
from kernelblaster.settings import settings, tool_environment

MESSAGE_BYTES = 1 << 16
OPTIONS = ("profile-from-start", "clock-control", "csv", "page", "metrics", "section", "apply-rules", "tool")
OPTION = re.compile(rf"--({'|'.join((*OPTIONS, 'print-limit'))})|[A-Za-z0-9_.,]+")
LIMIT_S = 60.0


@dataclass
class _Started:
    """The socket (`line`) by which this process asks its starter, the small process that may start NVIDIA's
    tools, to start one; None if it has no starter."""

    line: socket.socket | None = None


_started = _Started()


class StartedTool:
    """A tool (ncu or compute-sanitizer) that the starter process has started on behalf of this one. It is
    used like a `subprocess.Popen`, but its exit code is not known. `pid` is its process id, `handle` a pidfd
    of it."""

    def __init__(self, pid: int, handle: int) -> None:
        self.pid = pid
        self._handle = handle

    def poll(self) -> int | None:
        """As `Popen.poll`: None while the tool runs, 0 once it has ended, whatever its real exit code, which
        is not known here."""
        return 0 if select.select([self._handle], [], [], 0)[0] else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the tool's end, at most `timeout` seconds (None: without limit); returns 0 whatever its
        exit code. Raises subprocess.TimeoutExpired."""
        if not select.select([self._handle], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return 0

    def kill(self) -> None:
        """Kills the tool. Does nothing if it has ended, like `Popen.kill`."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def __del__(self) -> None:
        os.close(self._handle)


def begin_starting(programs: Sequence[Path]) -> None:
    """Forks the starter, a small process that will start NVIDIA's tools for this process and ends with it.
    Call it after file access was confined, and before the filter of system calls is installed. `programs` are
    the folders with the players, the only programs on which the starter runs a tool. The caller must have
    confined this process so that it cannot write to these folders."""
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    parent = os.getpid()
    if os.fork() == 0:
        mine.close()
        _live(theirs, parent, programs)
    theirs.close()
    _started.line = mine


def start_tool(command: Sequence[str], folder: Path, output: int) -> "StartedTool | subprocess.Popen[bytes]":
    """Starts ncu or compute-sanitizer on a player, an executable of KernelBlaster that replays a candidate's
    launches. Returns the tool's process: a `StartedTool` if this process is confined, since the starter
    process starts the tool then; otherwise a `subprocess.Popen`. `command` is the whole command line: the
    tool, its options, the player and its arguments. `folder` is for temporary files, `output` a file
    descriptor for what is printed. Raises DeviceLost if the tool cannot be started."""
    if not settings().confined:
        return _start(command, folder, output)
    if _started.line is None:
        raise DeviceLost(f"{command[0]}: cannot be started by a confined process that began without it.")
    request = json.dumps({"command": list(command), "folder": str(folder)}).encode()
    socket.send_fds(_started.line, [request], [output])
    _started.line.settimeout(LIMIT_S)
    answer, handles, _, _ = socket.recv_fds(_started.line, MESSAGE_BYTES, 1)
    if not handles:
        raise DeviceLost(f"{command[0]}: was not started: {answer.decode(errors='replace')}")
    return StartedTool(int(answer), handles[0])


def _start(command: Sequence[str], folder: Path, output: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=tool_environment() | {"HOME": str(folder), "TMPDIR": str(folder)},
    )


def _live(line: socket.socket, parent: int, programs: Sequence[Path]) -> NoReturn:
    """What the starter's process does after the fork, until it ends: takes requests from the socket `line`
    and starts the tools that they ask for. It ends when the other end is closed, or when `parent` ends, the
    process (by its id) that forked it. `programs` are the folders with the only executables that a tool may
    be run on."""
    try:
        bind_to_parent(parent)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended tools leave no trace
        while True:
            request, handles, _, _ = socket.recv_fds(line, MESSAGE_BYTES, 1)
            if not request:
                os._exit(0)
            _answer(line, request, handles, programs)
    finally:
        os._exit(1)


def _answer(line: socket.socket, request: bytes, handles: list[int], programs: Sequence[Path]) -> None:
    """Starts the tool that `request` (JSON) asks for and sends its process id and pidfd over the socket
    `line`; if the request is refused or fails, sends the reason as text. `handles` are the descriptors that
    came with it: exactly one, to which the tool's output goes; closed here. `programs` are the folders with
    the only executables that a tool may be run on."""
    try:
        asked = json.loads(request)
        command, folder = asked["command"], Path(asked["folder"])
        problem = _problem(command, folder, programs) if len(handles) == 1 else "no output"
        if problem:
            line.send(problem.encode())
            return
        process = _start(command, folder, handles[0])
        handle = os.pidfd_open(process.pid)
        socket.send_fds(line, [str(process.pid).encode()], [handle])
        os.close(handle)
    except (OSError, ValueError, KeyError, TypeError) as error:
        line.send(f"{error}"[:200].encode())
    finally:
        for one in handles:
            os.close(one)


def _problem(command: Any, folder: Path, programs: Sequence[Path]) -> str:
    """Why a command is not started, in words; empty if it may be: ncu or compute-sanitizer with options that
    name no files, then one executable in the folders `programs`, whose arguments are numbers and a path in
    `folder`, the request's temporary folder."""
    known = settings()
    scratch = os.path.realpath(os.environ.get("TMPDIR", "/nowhere"))
    if command[0] not in (known.ncu, known.sanitizer) or command[0] is None:
        return "it is no tool"
    own = [index for index, word in enumerate(command) if _is_program(word, programs)]
    if len(own) != 1 or not all(OPTION.fullmatch(word) for word in command[1 : own[0]]):
        return "it has other options, or runs another program"
    *numbers, path = command[own[0] + 1 :]
    within = os.path.realpath(folder).startswith(f"{scratch}/") and Path(path).parent == folder
    return "" if within and all(word.isdigit() for word in numbers) else "its player has other arguments"


def _is_program(word: str, programs: Sequence[Path]) -> bool:
    """Whether a word of a command line is the absolute path of an executable of this program, in one of the
    folders `programs` (symbolic links resolved)."""
    path = Path(os.path.realpath(word))
    return word.startswith("/") and any(path.is_relative_to(os.path.realpath(folder)) for folder in programs)
