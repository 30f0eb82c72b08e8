"""Shares one judge between processes: their candidates are compiled in parallel and take turns on the device.

server = JudgeServer(judge)
workers = Workers(work, [(server.connect(),) for _ in range(4)])  # of processes/workers.py
server.serve()
"""

import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.errors import DeviceLost, KernelBlasterError
from kernelblaster.judge.compile import Binary, compilers
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.records import Candidate, Evaluation, Fitness, Floor, Profile, Task
from kernelblaster.records.outcome import Outcome
from kernelblaster.records.profile import Depth

PAUSE_S = 0.02  # between polls of unfinished compilations


@dataclass(frozen=True)
class DeviceFacts:
    """The description of a device that another process holds (a `JudgedDevice`)."""

    name: str
    spec: GpuSpec
    modelled: bool


class SharedJudge:
    """A judge whose device is in another process, to which each request is sent over `connection`. Made by
    `JudgeServer.connect`. Not thread-safe; can be pickled to a process as that is started. An error of a
    request is raised here; DeviceLost if the other process has ended."""

    def __init__(self, connection: "Connection[Any, Any]", device: DeviceFacts) -> None:
        self._connection = connection
        self.device = device

    def prepare(self, task: Task) -> tuple[Fitness, Floor]:
        return self._ask("prepare", task)  # type: ignore[no-any-return]

    def profile(
        self, task: Task, candidates: Sequence[Candidate], *, depth: Depth = "detailed"
    ) -> list[Profile | Outcome]:
        return self._ask("profile", task, tuple(candidates), depth)  # type: ignore[no-any-return]

    def confirmed(self, task: Task, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        return self._ask("confirm", task, candidate, evaluation)  # type: ignore[no-any-return]

    def estimate(self, task: Task, candidates: Sequence[Candidate]) -> list[float | None]:
        return self._ask("estimate", task, tuple(candidates))  # type: ignore[no-any-return]

    def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
        """Evaluations in the order of the jobs. All jobs are sent at once, so that they can be compiled in
        parallel."""
        for job in jobs:
            self._connection.send(("evaluate", *job))
        for _ in jobs:
            yield self._answer()

    def close(self) -> None:
        self._connection.close()

    def _ask(self, *question: object) -> Any:
        """Send a request (its kind, then its arguments) and wait for the answer."""
        self._connection.send(question)
        return self._answer()

    def _answer(self) -> Any:
        """The next answer. Raises it if it is an exception, DeviceLost if the other process has ended."""
        try:
            answer = self._connection.recv()
        except (EOFError, OSError) as error:
            raise DeviceLost("the process that holds the device has ended.") from error
        if isinstance(answer, Exception):
            raise answer
        return answer


@dataclass
class _Job:
    """A request of a client that waits to be answered: (kind, arguments...). `binary` is the compilation that
    it needs, if any."""

    client: "Connection[Any, Any]"
    question: tuple[Any, ...]
    binary: "Future[Binary | Outcome] | None" = None

    @property
    def ready(self) -> bool:
        return self.binary is None or self.binary.done()


class JudgeServer:
    """Answers the requests of several processes with one judge, those of each process in order. `busy` are
    the seconds that the device was in use, by kind of request."""

    def __init__(self, judge: DeviceJudge) -> None:
        self._judge = judge
        self._clients: list[Connection[Any, Any]] = []
        self._theirs: list[Connection[Any, Any]] = []
        self._waiting: deque[_Job] = deque()
        self.busy: Counter[str] = Counter()

    def connect(self) -> SharedJudge:
        """A judge to hand to one new process. Call it for all processes before `serve`."""
        here, there = Pipe()
        self._clients.append(here)
        self._theirs.append(there)
        device = self._judge.device
        return SharedJudge(there, DeviceFacts(device.name, device.spec, device.modelled))

    def serve(self) -> None:
        """Answer requests until every process has closed its judge or has ended. The processes must be
        running already. Raises DeviceLost if the device fails."""
        for connection in self._theirs:
            connection.close()
        with compilers() as pool:
            while self._clients or self._waiting:
                self._listen(pool)
                jobs = self._next()
                for job in jobs:
                    self._waiting.remove(job)
                if jobs:
                    self._answer_all(jobs)

    def _listen(self, pool: ThreadPoolExecutor) -> None:
        """Receive new requests and start compiling those that need it; waits up to PAUSE_S seconds if none
        can be answered yet."""
        for client in wait(self._clients, 0 if self._next() else PAUSE_S):
            assert isinstance(client, Connection)
            try:
                question = client.recv()
            except (EOFError, OSError):
                self._clients.remove(client)
                self._waiting = deque(job for job in self._waiting if job.client is not client)
                continue
            binary = pool.submit(self._judge.compile, *question[1:]) if question[0] == "evaluate" else None
            self._waiting.append(_Job(client, question, binary))

    def _next(self) -> list[_Job]:
        """The requests to answer now, empty if none is ready. Usually one: the oldest that is ready and is
        the first of its process. Profiles of equal depth are answered together, since starting a profiler
        takes longer than most of them: once half of the processes wait for one, or nothing else is ready."""
        first: dict[Connection[Any, Any], _Job] = {}
        for job in self._waiting:
            first.setdefault(job.client, job)
        ready = [job for job in first.values() if job.ready]
        profiles = [job for job in ready if job.question[0] == "profile"]
        others = [job for job in ready if job.question[0] != "profile"]
        if profiles and (not others or 2 * len(profiles) >= len(self._clients)):
            return [job for job in profiles if job.question[3] == profiles[0].question[3]]
        return others[:1]

    def _answer_all(self, jobs: Sequence[_Job]) -> None:
        """Answer requests; several are all profiles and are made under one start of the profiler. If that
        fails, they are answered one by one, so that only the one at fault gets the error."""
        if len(jobs) == 1:
            self._answer(jobs[0])
            return
        start = time.monotonic()
        try:
            wanted = [(job.question[1], job.question[2]) for job in jobs]
            answers = self._judge.profile_many(wanted, depth=jobs[0].question[3])
        except DeviceLost:
            raise
        except Exception:
            for job in jobs:
                self._answer(job)
            return
        self.busy["profile"] += time.monotonic() - start  # type: ignore[assignment]
        for job, answer in zip(jobs, answers, strict=True):
            self._send(job, answer)

    def _answer(self, job: _Job) -> None:
        """Answer one request. Errors of the task or candidate are sent to the client; DeviceLost and CUDA
        errors are raised."""
        kind, *about = job.question
        answer: object
        start = time.monotonic()
        try:
            if kind == "evaluate":
                assert job.binary is not None
                answer = self._judge.finish(about[0], about[1], job.binary.result())
            elif kind == "profile":
                answer = self._judge.profile(about[0], about[1], depth=about[2])
            elif kind == "estimate":
                answer = self._judge.estimate(*about)
            elif kind == "confirm":
                answer = self._judge.confirmed(*about)
            else:
                answer = self._judge.prepare(about[0])
        except DeviceLost:
            raise
        except KernelBlasterError as error:
            answer = error
        except Exception as error:
            if "CUDA error" in str(error):
                raise
            answer = KernelBlasterError(f"internal error: {error!r}")  # of this task; the others go on
        finally:
            self.busy[kind] += time.monotonic() - start  # type: ignore[assignment]
        self._send(job, answer)

    def _send(self, job: _Job, answer: object) -> None:
        with suppress(OSError):  # where the process is gone
            job.client.send(answer)
