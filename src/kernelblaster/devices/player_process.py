"""Controls players, the processes that replay a candidate's recorded launches on a GPU or the emulator:
start, commands, time limits, kill."""

import contextlib
import json
import select
import signal
import socket
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kernelblaster.confinement.tool_starter import StartedTool
from kernelblaster.devices.device import CandidateDied, CandidateHung
from kernelblaster.errors import DeviceLost
from kernelblaster.processes.processor_time import BUSY, processor_seconds

START_LIMIT_S = 60.0
MOST_ANSWER = 64 << 20
DESCRIPTORS_AT_ONCE = 128  # that one message of a local socket may carry


class PlayerProcess:
    """Controls one player (a process that replays recorded launches) over `channel`, a local socket: one line
    of text for each command, one JSON line for each answer. The player takes commands once `wait_ready` has
    returned. It may die at any command, since it runs a candidate's kernels. `computes`: the player works on
    the CPU, as the emulator does. The limit of a command is then in processor time, so that a machine busy
    with other programs does not make a candidate look hung; by the clock, it may take 20 times as long
    (BUSY)."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes] | StartedTool",
        channel: socket.socket,
        *,
        computes: bool = False,
    ) -> None:
        self._process = process
        self._computes = computes
        self._channel = channel
        self._buffer = b""
        self._ready: dict[str, Any] | None = None
        self._owed = 0  # answers to commands that were posted

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_ready(self) -> dict[str, Any]:
        """Waits until the player (the process that replays launches) has started, and returns the properties
        that it reports then (GPU name, attributes, memory). May be called again. Raises DeviceLost if it does
        not start within 60 s (START_LIMIT_S)."""
        if self._ready is None:
            try:
                self._ready = self._read(START_LIMIT_S)
            except (CandidateDied, CandidateHung) as error:
                self.kill()
                raise DeviceLost(f"a player did not start: {error}") from error
            if "ready" not in self._ready:
                raise DeviceLost(f"a player could not begin: {self._ready.get('fault')}")
        return self._ready

    def share(self, descriptors: Sequence[int]) -> None:
        """Sends file descriptors of the judge's memory to the player (the process that replays launches), so
        that it can map that memory. The command that is sent next uses them. Raises CandidateDied if the
        player has ended."""
        with self._or_died():
            for first in range(0, len(descriptors), DESCRIPTORS_AT_ONCE):
                part = list(descriptors[first : first + DESCRIPTORS_AT_ONCE])
                socket.send_fds(self._channel, [b"\n"], part)

    def command(self, text: str, limit_s: float) -> dict[str, Any]:
        """Sends the player (the process that replays launches) one command, a line of `text`, and returns its
        answer; if a command that was posted before has failed, that one's answer. Raises CandidateHung after
        `limit_s` seconds and CandidateDied if the process ends; either way the process is killed."""
        try:
            self.post(text)
            failed: dict[str, Any] | None = None
            while self._owed:
                answer = self._read(limit_s)
                self._owed -= 1
                failed = failed or (answer if "fault" in answer else None)
            return failed or answer
        except (CandidateDied, CandidateHung):
            self.kill()
            raise

    def post(self, text: str) -> None:
        """Sends the player (the process that replays launches) one command, a line of `text`, and does not
        wait for the answer, which the next `command` reads. Raises CandidateDied if the process has ended."""
        with self._or_died():
            self._channel.sendall(text.encode() + b"\n")
        self._owed += 1

    def end(self) -> None:
        """Closes the socket to the player (the process that replays launches), which then exits by itself.
        Does not wait for that."""
        with contextlib.suppress(OSError):
            self._channel.close()

    def kill(self) -> None:
        """Kills the player (the process that replays launches) and closes the socket to it. Does not wait for
        the process's end; `reap` does that."""
        if self._process.poll() is None:
            self._process.kill()
        self.end()

    def reap(self, limit_s: float) -> bool:
        """Waits until the player's process has ended and its GPU memory is released. Returns False if that
        takes more than `limit_s` seconds, otherwise True."""
        try:
            self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    @contextlib.contextmanager
    def _or_died(self):  # type: ignore[no-untyped-def]
        """A context for talking to the player over its socket: an OSError in it becomes CandidateDied, with
        how the process ended."""
        try:
            yield
        except OSError as error:
            raise CandidateDied(self._how_it_died()) from error

    def _read(self, limit_s: float) -> dict[str, Any]:
        """The player's next answer, a JSON object. Raises CandidateHung after `limit_s` seconds,
        CandidateDied if the process ends or sends something else."""
        start = time.monotonic()
        done = processor_seconds(self.pid) if self._computes else 0.0
        deadline = start + limit_s
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._channel], [], [], left)[0]:
                missing = limit_s - (processor_seconds(self.pid) - done) if self._computes else 0.0
                deadline = min(time.monotonic() + missing, start + BUSY * limit_s)
                if missing > 0 and deadline > time.monotonic():
                    continue
                raise CandidateHung(limit_s)
            with self._or_died():
                piece = self._channel.recv(1 << 16)
            if not piece:
                raise CandidateDied(self._how_it_died())
            self._buffer += piece
            if len(self._buffer) > MOST_ANSWER:
                raise CandidateDied("the answer is too long")
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            answer = json.loads(line)
        except ValueError as error:
            raise CandidateDied("the answer cannot be read") from error
        if not isinstance(answer, dict):
            raise CandidateDied("the answer cannot be read")
        return answer

    def _how_it_died(self) -> str:
        """How the player's process ended, in words; waits up to 2 s for its end."""
        try:
            return f"the process {ended(self._process.wait(2))}"
        except subprocess.TimeoutExpired:
            return "the process closed its socket"


def ended(code: int) -> str:
    """Returns how a process ended, in words to be put after "the process": "was ended by SIGSEGV", or "called
    exit with code 1". `code` is `subprocess`' return code (negative: a signal)."""
    if code < 0:
        known = -code in signal.Signals._value2member_map_
        return f"was ended by {signal.Signals(-code).name if known else -code}"
    return f"called exit with code {code}"


def start_player(
    executable: Path, options: Sequence[str], environment: dict[str, str], *, computes: bool = False
) -> PlayerProcess:
    """Starts `executable`, a player (a process that replays recorded launches), with these command-line
    options and only the variables of `environment`. Returns the object through which the player is sent
    commands, by a socket that is its standard input. Does not wait until the player is ready. `computes`: the
    player works on the CPU, as the emulator does, so that its time limits count processor time."""
    mine, theirs = socket.socketpair()
    process = subprocess.Popen(
        [str(executable), *options],
        stdin=theirs.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        cwd="/",
        start_new_session=True,
    )
    theirs.close()
    return PlayerProcess(process, mine, computes=computes)


class PlayerPool:
    """Keeps `spares` players (processes that replay recorded launches) started ahead of need; `start` starts
    one. Each player serves one candidate only, so that a corrupted CUDA context cannot affect the next."""

    def __init__(self, start: Callable[[], PlayerProcess], spares: int) -> None:
        self._start = start
        self._spares = spares
        self._waiting: deque[PlayerProcess] = deque()
        self._ending: list[PlayerProcess] = []
        self.refill()

    def refill(self) -> None:
        """Starts players (processes that replay recorded launches) until as many are waiting as the pool
        keeps started ahead of need (`spares`)."""
        while len(self._waiting) < self._spares:
            self._waiting.append(self._start())

    def take(self) -> PlayerProcess:
        """Takes a player (a process that replays launches) that is ready out of the pool, starts another in
        its place, and returns the first. The caller hands it to `retire` after use. Raises DeviceLost if the
        player cannot be started."""
        self.refill()
        player = self._waiting.popleft() if self._waiting else self._start()
        self.refill()
        player.wait_ready()
        return player

    def retire(self, player: PlayerProcess) -> None:
        """Kills a player (a process that replays launches) whose candidate needs it no more, without waiting
        for the process's end; `settle` does that."""
        player.kill()
        self._ending.append(player)

    def settle(self, limit_s: float = 5.0) -> None:
        """Waits until the players (processes that replay launches) that are being started are ready, and up
        to `limit_s` seconds for each retired one to end."""
        for player in self._waiting:
            player.wait_ready()
        self._ending = [player for player in self._ending if not player.reap(limit_s)]

    def close(self) -> None:
        """Kills all players (processes that replay launches) of the pool, and waits up to 2 s for each to
        end."""
        for player in self._waiting:
            player.kill()
        for player in (*self._waiting, *self._ending):
            player.reap(2.0)
        self._waiting.clear()
