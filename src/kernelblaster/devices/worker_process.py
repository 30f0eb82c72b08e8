"""The judge's end of a worker process: start, command, time limit, kill."""

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kernelblaster.devices.device import (
    Argument,
    CallReport,
    CandidateDied,
    CandidateHung,
    Pointer,
    TimeReport,
    Work,
)
from kernelblaster.errors import DeviceLost

START_LIMIT_S = 60.0
HOST_MEMORY_BYTES = 4 << 30


def encode(arguments: Sequence[Argument]) -> str:
    """Arguments as the worker reads them."""
    words = [str(len(arguments))]
    for argument in arguments:
        if isinstance(argument, Pointer):
            words.append(f"p{argument.offset}")
        elif isinstance(argument, bool):
            words.append(f"b{int(argument)}")
        elif isinstance(argument, int):
            words.append(f"i{argument}")
        else:
            words.append(f"d{argument!r}")
    return " ".join(words)


class WorkerProcess:
    """One worker. It is ready when `wait_ready` returns; any command may kill it."""

    def __init__(self, executable: Path, flush_bytes: int, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [str(executable), str(flush_bytes), str(HOST_MEMORY_BYTES)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
        assert self._process.stdin and self._process.stdout
        self._commands = self._process.stdin.fileno()
        self._replies = self._process.stdout.fileno()
        self._buffer = b""
        self._ready: dict[str, Any] | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    def tell(self, text: str) -> None:
        """Send a line that has no answer of its own."""
        try:
            os.write(self._commands, text.encode() + b"\n")
        except OSError as error:
            raise CandidateDied(self._how_it_died()) from error

    def wait_ready(self) -> str:
        """What the sandbox lacks, in words; empty if nothing."""
        if self._ready is None:
            try:
                self._ready = self._read(START_LIMIT_S)
            except (CandidateDied, CandidateHung) as error:
                self.kill()
                raise DeviceLost(f"a worker process did not start: {error}") from error
            if "ready" not in self._ready:
                raise DeviceLost(f"a worker process could not begin: {self._ready.get('fault')}")
        return str(self._ready["sandbox_gaps"])

    @property
    def flush_us(self) -> float:
        """How long flushing the cache took before any candidate was in the process."""
        assert self._ready is not None
        return float(self._ready["flush_us"])

    def command(self, text: str, limit_s: float) -> dict[str, Any]:
        """Send one command and wait for its answer; on any failure the process is killed."""
        self.tell(text)
        try:
            return self._read(limit_s)
        except (CandidateDied, CandidateHung):
            self.kill()
            raise

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream and not stream.closed:
                with contextlib.suppress(OSError):
                    stream.close()

    def reap(self, limit_s: float) -> bool:
        """Wait until the process, and with it all it held on the GPU, is gone."""
        try:
            self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _read(self, limit_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + limit_s
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._replies], [], [], left)[0]:
                raise CandidateHung(limit_s)
            piece = os.read(self._replies, 1 << 16)
            if not piece:
                raise CandidateDied(self._how_it_died())
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        if self._buffer:
            raise CandidateDied("the process spoke out of turn")
        try:
            answer = json.loads(line)
        except ValueError as error:
            raise CandidateDied("the process sent something that is not an answer") from error
        if not isinstance(answer, dict):
            raise CandidateDied("the process sent something that is not an answer")
        return answer

    def _how_it_died(self) -> str:
        try:
            code = self._process.wait(2)
        except subprocess.TimeoutExpired:
            return "the process closed its pipe"
        if code < 0:
            name = signal.Signals(-code).name if -code in signal.Signals._value2member_map_ else -code
            return f"the process was ended by {name}"
        return f"the process called exit with code {code}"


class WorkerRunner:
    """A candidate loaded in a worker: implements `Runner`."""

    def __init__(self, worker: WorkerProcess, limit_s: float) -> None:
        self._worker = worker
        self._limit_s = limit_s

    def prepare(self, command: str) -> None:
        self.ask(command)

    def ask(self, command: str) -> dict[str, Any]:
        """The worker's answer; a fault that it tells of is the candidate's."""
        answer = self._worker.command(command, self._limit_s)
        if "fault" in answer:
            raise CandidateDied(str(answer["fault"]))
        return answer

    def call(self, arguments: Sequence[Argument], *, scratch_poison: int, accounting: bool) -> CallReport:
        text = f"call {scratch_poison} {int(accounting)} {encode(arguments)}"
        return call_report(self._worker.command(text, self._limit_s))

    def time(self, arguments: Sequence[Argument]) -> TimeReport:
        text = f"time {encode(arguments)}"
        start = time.perf_counter()
        answer = self._worker.command(text, self._limit_s)
        owner_us = (time.perf_counter() - start) * 1e6
        try:
            return TimeReport(
                call=call_report(answer),
                event_us=float(answer["event_us"]),
                span_us=float(answer["span_us"]),
                wall_us=float(answer["wall_us"]),
                owner_us=owner_us,
                flush_us=self._worker.flush_us,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CandidateDied("the process sent an answer of another form") from error

    def close(self) -> None:
        self._worker.kill()


def call_report(answer: dict[str, Any]) -> CallReport:
    try:
        return CallReport(
            error=str(answer["error"]),
            violations=tuple(str(v) for v in answer["violations"]),
            live_bytes=int(answer["live_bytes"]),
            leaks=tuple(str(leak) for leak in answer.get("leaks", [])),
            work=tuple(
                Work(
                    name=str(w["name"]),
                    grid=tuple(w["grid"]),
                    block=tuple(w["block"]),
                    shared_bytes=int(w["shared_bytes"]),
                    duration_us=w.get("us"),
                )
                for w in answer["work"]
            ),
            findings=tuple(
                f"{f['kind']} in {f['kernel']}, line {f['line']}, block {f['block']}, thread {f['thread']}: "
                f"{f['detail']}"
                for w in answer["work"]
                for f in w.get("report", {}).get("findings", [])
            ),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CandidateDied("the process sent an answer of another form") from error


class WorkerPool:
    """Workers started ahead of need. Each serves one candidate: nothing that a candidate does to
    its process can reach the next one."""

    def __init__(self, executable: Path, flush_bytes: int, environment: dict[str, str], spares: int) -> None:
        self._start: Callable[[], WorkerProcess] = lambda: WorkerProcess(executable, flush_bytes, environment)
        self._spares = spares
        self._waiting: deque[WorkerProcess] = deque()
        self._ending: list[WorkerProcess] = []
        self.refill()

    def refill(self) -> None:
        while len(self._waiting) < self._spares:
            self._waiting.append(self._start())

    def take(self) -> WorkerProcess:
        self.refill()
        worker = self._waiting.popleft()
        self.refill()
        worker.wait_ready()
        return worker

    def retire(self, worker: WorkerProcess) -> None:
        worker.kill()
        self._ending.append(worker)

    def settle(self, limit_s: float = 5.0) -> None:
        """Wait for starting workers to be ready and for ended ones to be gone."""
        for worker in self._waiting:
            worker.wait_ready()
        self._ending = [worker for worker in self._ending if not worker.reap(limit_s)]

    def close(self) -> None:
        for worker in self._waiting:
            worker.kill()
        for worker in (*self._waiting, *self._ending):
            worker.reap(2.0)
        self._waiting.clear()
