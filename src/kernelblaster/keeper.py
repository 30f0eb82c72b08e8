"""The side of the keeper that other processes use. The keeper is a process that runs no code of task files or
candidates. It does for a confined command what the command may not do itself: it calls model servers (it has
the keys), opens the knowledge base, writes the files that the user named, and builds this program's native
parts. `is_running` is False in a process that has no keeper.

Protocol: a connection is one end of a socket pair. It is handed to the keeper through its door, a socket that
this process and its workers inherit. A message is a 4-byte big-endian length and a JSON object. The keeper
answers each message with one message; before that it may send any number of {"progress": TEXT}."""

import ctypes
import json
import os
import select
import signal
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any, NoReturn

from kernelblaster import survivors
from kernelblaster.errors import KernelBlasterError
from kernelblaster.variables import keeper_address

LARGEST_BYTES = 64 << 20
SHORT_S = 30.0
BUILD_S = 3600.0
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4
Data = dict[str, Any]
Serve = Callable[[socket.socket, int], None]
"""What the keeper's process does: serve a door; the number is a descriptor of what the command hid, -1 if
nothing."""


@dataclass
class _Way:
    """How this process reaches the keeper, a helper process that holds keys and files: the `door`, a socket
    by which connections are handed to it, None until it is started; `serve`, the function that its process
    runs; `kept`, the knowledge bases (paths or URLs) that it was told of."""

    door: socket.socket | None = None
    serve: Serve | None = None
    kept: set[str] = field(default_factory=set)


_way = _Way()


class KeeperLost(KernelBlasterError):
    """Raised if there is no keeper (the command's helper process that holds keys and files), if its process
    has ended, or if it does not answer in time."""


def key_names() -> frozenset[str]:
    """The names of the environment variables (like OPENAI_API_KEY) whose keys are held by the keeper, the
    command's trusted helper process; empty if there is no keeper."""
    _, _, names = keeper_address().partition(" ")
    return frozenset(names.split())


def is_running() -> bool:
    """Whether this process was started with a keeper (the helper process that holds keys and files). The
    keeper may have ended since: then `ask` raises KeeperLost."""
    return bool(keeper_address())


def use(serve: Serve) -> None:
    """Sets `serve`, the function that the keeper runs as its main program. The keeper (a helper process that
    holds keys and files) is started later, by the first request to it or by `start`. It then calls
    `serve(door, hidden)`: `door` is the socket through which requests come, `hidden` the file descriptor of
    the values that the command hid at its start, -1 if there are none."""
    _way.serve = serve


def start() -> None:
    """Starts the keeper, the helper process that holds keys and files, as a fork of this process, which must
    have one thread. Does nothing if it was started already, or if this command has no keeper. Afterwards,
    this process can no longer read the keys and variables that the command hid at its start; only the keeper
    can. Raises KeeperLost if `use` was not called before."""
    if _way.door is not None or not is_running():
        return
    if _way.serve is None:
        raise KeeperLost("this process has no way to the keeper; start the command again.")
    hidden = int(keeper_address().partition(" ")[0])
    _way.door, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    parent, mark = _Parent(), survivors.take_mark()
    if os.fork() == 0:
        _way.door.close()
        _live(_way.serve, theirs, hidden, parent, mark)
    theirs.close()
    parent.close()
    if hidden >= 0:
        os.close(hidden)


def seal() -> None:
    """Ends the time in which things can be claimed: from now on, the keeper (the helper process that holds
    keys and files) uses only those servers, knowledge bases and files that `claim` was called for before.
    Called before the code of task files runs. Does nothing if there is no keeper, or it has ended."""
    if is_running():
        with suppress(KeeperLost):
            ask({"do": "seal"}, SHORT_S)


def take_environment() -> None:
    """Sets again, in this process, the environment variables that the command hid at its start, except API
    keys of model servers: for a command that talks to databases or other machines without the keeper. Does
    nothing without a keeper (the helper process that holds these variables), or after `seal`."""
    if is_running():
        os.environ.update(ask({"do": "environment"}, SHORT_S).get("variables", {}))


def claim(kind: str, name: str) -> None:
    """Tells the keeper (the helper process that holds keys and files) that the user named a server, knowledge
    base or file. After `seal`, which is called before the code of task files runs, the keeper uses only what
    was claimed. `kind` is "server" for the address of a model server, "knowledge" for the path or URL of a
    knowledge base, "file" for the path of a file to be written; `name` is that address, path or URL. Does
    nothing without a keeper."""
    if is_running():
        ask({"do": "claim", kind: name}, SHORT_S)
        if kind == "knowledge":
            _way.kept.add(name)


def keeps(knowledge: str) -> bool:
    """Whether this process has claimed the knowledge base at this path or URL, so that the keeper (the helper
    process that holds keys and files) opens it on this process's behalf."""
    return knowledge in _way.kept


def build(what: str, tell: Callable[[str], None], **options: str) -> None:
    """Has the keeper (the command's trusted process) build one of this program's native parts. `what` names
    it ("recorder", "launcher", "machine" or "emulated"; see `keeping/builds.py`), `options` go with it, like
    `architecture` for the launcher. `tell` is called with progress as text. Raises KernelBlasterError if it
    cannot be built."""
    checked_reply(ask({"do": "build", "what": what, **options}, BUILD_S, tell))


def write(path: Path, text: str, mode: int) -> None:
    """Writes `text` to the file `path`, atomically, by way of the keeper (the command's helper process),
    which may write where this process may not. The keeper must have been told of `path` before, by `claim`;
    `mode` are its permissions, reduced by the umask. Raises KernelBlasterError if the file cannot be
    written."""
    checked_reply(ask({"do": "write", "file": str(path), "text": text, "mode": mode}, BUILD_S))


def checked_reply(reply: Data) -> Data:
    """Returns the `reply` of the keeper (the helper process that holds keys and files) to a request,
    unchanged. Raises KernelBlasterError, with the keeper's message, if the reply reports a failure."""
    if "failure" in reply:
        raise KernelBlasterError(str(reply["failure"]["message"]))
    return reply


def ask(message: Data, limit_s: float, tell: Callable[[str], None] = lambda text: None) -> Data:
    """Sends a message to the keeper (the helper process that holds keys and files) and returns its reply;
    `tell` is called with the progress texts that come before it. Raises `KeeperLost` if the keeper sends
    nothing for `limit_s` seconds."""
    with connected(limit_s) as connection:
        return exchange(connection, message, tell)


def connected(limit_s: float) -> socket.socket:
    """Opens a connection to the keeper, the helper process that holds keys and files. Each later read or
    write on it may take `limit_s` seconds. Raises KeeperLost if the keeper has ended or there is none."""
    mine, theirs = socket.socketpair()
    mine.settimeout(limit_s)
    with theirs:
        try:
            socket.send_fds(_opened_door(), [b"."], [theirs.fileno()])
        except OSError as error:
            mine.close()
            raise _lost(error) from error
    return mine


def exchange(
    connection: socket.socket, message: Data, tell: Callable[[str], None] = lambda text: None
) -> Data:
    """Sends a message to the keeper (the helper process that holds keys and files) on a connection that is
    already open, passes progress texts to `tell`, and returns the reply. Raises KeeperLost if the connection
    ends or times out."""
    try:
        send(connection, message)
        while True:
            reply = receive(connection)
            if "progress" not in reply:
                return reply
            tell(str(reply["progress"]))
    except (OSError, ValueError) as error:
        raise _lost(error) from error


def send(connection: socket.socket, message: Data) -> None:
    """Writes one message to `connection`, a connected socket: its length in 4 bytes (big-endian), then the
    JSON text."""
    data = json.dumps(message).encode()
    connection.sendall(struct.pack("!I", len(data)) + data)


def receive(connection: socket.socket) -> Data:
    """Reads and returns one message from `connection`, a connected socket. Raises `ValueError` if the
    connection ends early, or if what arrives is no JSON object or is larger than 64 MiB (LARGEST_BYTES)."""
    (size,) = struct.unpack("!I", _exactly(connection, 4))
    if size > LARGEST_BYTES:
        raise ValueError("a message that is too large")
    message = json.loads(_exactly(connection, size))
    if not isinstance(message, dict):
        raise ValueError("no message")
    return message


class Door:
    """A handle by which a new process reaches the keeper, a helper process that holds keys and files. The
    parent passes a `Door` as an argument when it starts a process by `multiprocessing`. The new process calls
    `open` on it, and can then use the parent's keeper."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (_Carried, (DupFd(_opened_door().fileno()),)) if is_running() else (Door, ())

    def open(self) -> None:
        """Makes this process use the keeper (the helper process that holds keys and files) of its parent
        process from now on. Does nothing if the parent process has no keeper."""


class _Carried(Door):
    """What a pickled `Door` becomes in the new process: it holds the file descriptor of the socket to the
    keeper."""

    def __init__(self, carried: Any) -> None:
        self._carried = carried

    def open(self) -> None:
        _way.door = socket.socket(fileno=self._carried.detach())


def _opened_door() -> socket.socket:
    """The socket through which connections are handed to the keeper; starts the keeper's process if it does
    not run yet. Raises KeeperLost if there is none to start."""
    start()
    if _way.door is None:
        raise KeeperLost("there is no keeper.")
    return _way.door


class _Parent:
    """The command's first process, as the keeper sees it: made there before the fork, and watched by the
    keeper, which ends with it."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._handle: int | None = None
        with suppress(OSError):  # before Linux 5.3
            self._handle = os.pidfd_open(self._pid)

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)

    def follow(self, mark: int | None) -> None:
        """Starts to watch for the end of the command's process. When it has ended, the processes that it left
        behind are killed (their `oom_score_adj` is `mark`; None: none are), and this process exits. Where
        Linux has no pidfd, only this process is killed, by the kernel."""
        if self._handle is not None:
            threading.Thread(target=_follow, args=(self._handle, mark), daemon=True).start()
            return
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != self._pid:
            os._exit(1)

    def wait(self) -> None:
        """Never returns: sleeps until this process is ended, which `follow` does when the command has
        ended."""
        while True:
            signal.pause()


def _live(serve: Serve, door: socket.socket, hidden: int, parent: _Parent, mark: int | None) -> NoReturn:
    """What the keeper's process does after the fork: call `serve` with its socket `door` and the descriptor
    `hidden` of what the command hid. It cannot be traced or dumped, and exits at once if that cannot be set
    up; it ends after `parent`. `mark` is the `oom_score_adj` by which confined processes of this command are
    recognized, None if there is none."""
    try:
        _way.kept.clear()
        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0:
            parent.follow(mark)
            for number in (signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(nothing, stream)
            serve(door, hidden)
            parent.wait()  # nobody asks any more, and the command may still be about to end
    finally:
        os._exit(1)


def _follow(command: int, mark: int | None) -> NoReturn:
    """Wait for the end of the command's first process (`command` is its pidfd); then kill the processes with
    `mark` that it left behind (none if `mark` is None), and exit this process."""
    try:
        select.select([command], [], [])
        if mark is not None:
            survivors.end_survivors(mark)
    finally:
        os._exit(0)


def _lost(error: Exception) -> KeeperLost:
    return KeeperLost(f"the keeper of keys and files does not answer ({error}); start the command again.")


def _exactly(connection: socket.socket, size: int) -> bytes:
    """Reads `size` bytes from the socket, waiting for them. Raises ValueError if the connection ends
    before."""
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(min(size - len(data), 1 << 16))
        if not piece:
            raise ValueError("it ended")
        data += piece
    return bytes(data)
