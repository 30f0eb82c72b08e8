"""A judge whose device is in another process: of this machine, or of a fleet.

    with closing(Dispatcher(LocalFleet(gpus=["0", "1"]), PassingLeases())) as dispatcher:
        judge = FleetJudge.open(DirectLine(dispatcher), JudgeChoice("cuda"))
        fitness, floor = judge.prepare(task)

`LocalFleet` starts a process for each of two GPUs. The dispatcher hands requests to these processes.
`prepare` returns whether the task can be judged, and the least work that any kernel for it must do.
`PassingLeases` counts processes that were lost, in memory only. `DirectLine` connects the judge to the
dispatcher; `JudgeChoice` asks for a GPU. The judge is then used like any other.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from kernelblaster.fleet.requests import (
    ConfirmRequest,
    DescribeRequest,
    DeviceFacts,
    EstimateRequest,
    EvaluateRequest,
    JudgeChoice,
    PrepareRequest,
    ProfileRequest,
    Request,
)
from kernelblaster.judge.estimate import Estimator, estimates
from kernelblaster.records import Candidate, Evaluation, Fitness, Floor, Outcome, Profile, Task
from kernelblaster.records.profile import Depth
from kernelblaster.settings import settings

WINDOW = 64  # evaluations that one judge has under way at once


class Line(Protocol):
    """How one search reaches the dispatcher of a fleet (the object that hands requests to devices): an
    interface, as the dispatcher may be in this process or in another one."""

    def send(self, request: Request) -> int:
        """Send a request; returns its number, for `receive`."""
        ...

    def receive(self, number: int) -> Any:
        """Waits for the answer to the request with this number and returns it. If the answer is a
        KernelBlasterError, raises that; raises DeviceLost if the dispatcher (the object that hands requests
        to devices) is gone."""
        ...

    def close(self) -> None: ...


class FleetJudge:
    """A `Judge` that sends each request over `line` to the process that owns the device, which `device`
    describes. `choice` says which judge answers there (its baseline and checks). For one search at a time;
    not thread-safe."""

    def __init__(self, line: Line, choice: JudgeChoice, device: DeviceFacts) -> None:
        self._line = line
        self._choice = choice
        self._estimator = Estimator(device.spec)
        self.device = device

    @classmethod
    def open(cls, line: Line, choice: JudgeChoice) -> "FleetJudge":
        """Returns a judge, reached over `line`, on a device of the fleet that `choice` asks for (kind, model
        of GPU). Waits until there is such a device; raises DeviceLost if none can be expected any more."""
        return cls(line, choice, line.receive(line.send(DescribeRequest(choice))))

    def prepare(self, task: Task) -> tuple[Fitness, Floor]:
        return self._ask(PrepareRequest(self._choice, task))  # type: ignore[no-any-return]

    def profile(
        self, task: Task, candidates: Sequence[Candidate], *, depth: Depth = "detailed"
    ) -> list[Profile | Outcome]:
        return self._ask(ProfileRequest(self._choice, task, tuple(candidates), depth))  # type: ignore[no-any-return]

    def confirmed(self, task: Task, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        return self._ask(ConfirmRequest(self._choice, task, candidate, evaluation))  # type: ignore[no-any-return]

    def estimate(self, task: Task, candidates: Sequence[Candidate]) -> list[float | None]:
        """Returns the modelled time of each candidate for `task` in microseconds, None where it does not
        compile, fails, or cannot be modelled. If the judge's device is a GPU, a PTX machine (the emulator) in
        this process computes the times, so that the GPU does not wait meanwhile."""
        if self.device.modelled or settings().nvcc is None:
            return self._ask(EstimateRequest(self._choice, task, tuple(candidates)))  # type: ignore[no-any-return]
        return estimates(self._estimator, task, candidates, self.device.spec.architecture)

    def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
        """Evaluations in the order of the jobs. Up to 64 requests (WINDOW) are sent ahead, so that candidates
        can be compiled in parallel and, where times are modelled, judged by several devices."""
        under_way: deque[int] = deque()
        for task, candidate in jobs:
            if len(under_way) == WINDOW:
                yield self._line.receive(under_way.popleft())
            under_way.append(self._line.send(EvaluateRequest(self._choice, task, candidate)))
        while under_way:
            yield self._line.receive(under_way.popleft())

    def close(self) -> None:
        """Closes the PTX machine (the emulator) that this process has for estimates, if it has one; a later
        estimate opens it again. The process that owns the device is not told anything."""
        self._estimator.close()

    def _ask(self, request: Request) -> Any:
        return self._line.receive(self._line.send(request))
