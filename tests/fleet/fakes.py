"""A fleet whose owners answer at once, or when they are told to; nothing is compiled or run."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from kernelblaster.devices.specs import gpu_specs
from kernelblaster.errors import NoDevice
from kernelblaster.fleet.owner import Owner, OwnerLost
from kernelblaster.fleet.requests import (
    DescribeRequest,
    DeviceFacts,
    EvaluateRequest,
    OwnedKind,
    PrepareRequest,
    ProfileRequest,
    Request,
)
from kernelblaster.records import Candidate, Task
from kernelblaster.tasks.catalog import load_task

TASK = load_task("core/level1/relu")


def task_named(name: str) -> Task:
    """A task with another digest."""
    return TASK.model_copy(update={"name": name})


class FakeOwner:
    """Answers with what it was asked: `answer(request)`. While `held`, answers wait for `let_go`. Is lost at
    a candidate whose source is `kills`. If it `is_dead`, it is found to have been lost before it began with
    what it is asked; so are `dead_successors` that replace it, once they have described their device."""

    def __init__(self, name: str, kind: OwnedKind = "cuda", gpu: str = "h200") -> None:
        self.name = name
        self.kind = kind
        self.gpu = gpu
        self.held = False
        self.unhealthy = False
        self.is_dead = False
        self.dead_successors = 0
        self.asked: list[list[Request]] = []
        self.compiled: list[Any] = []
        self.ended = False
        self._waiting: list[Callable[[], None]] = []

    def ask(self, requests: Sequence[Request], compiled: Any = None) -> "Future[list[Any]]":
        future: Future[list[Any]] = Future()
        self.asked.append(list(requests))
        self.compiled.append(compiled)

        def finish() -> None:
            if self.is_dead and not isinstance(requests[0], DescribeRequest):
                future.set_exception(OwnerLost(f"{self.name} had ended", begun=False))
            elif any(_kills(request) for request in requests):
                future.set_exception(OwnerLost(f"{self.name} was ended"))
            else:
                future.set_result(self._answers(requests))

        if self.held and not isinstance(requests[0], DescribeRequest):
            self._waiting.append(finish)
        else:
            finish()
        return future

    def let_go(self) -> None:
        """Answer the oldest call that waits."""
        self._waiting.pop(0)()

    def end(self) -> None:
        self.ended = True

    def _answers(self, requests: Sequence[Request]) -> list[Any]:
        if isinstance(requests[0], DescribeRequest):
            if self.unhealthy:
                return [NoDevice("unhealthy: 95 °C")]
            return [DeviceFacts(f"fake {self.gpu}", gpu_specs()[self.gpu], self.kind == "emulated")]
        if len(requests) > 1 and any(_fails(request) for request in requests):
            return [RuntimeError("one of them fails")] * len(requests)
        return [RuntimeError("it fails") if _fails(r) else (self.name, _source(r)) for r in requests]


class FakeCompilers:
    """Compiles at once, and remembers what. Its process is lost at a candidate whose source has `crashes`."""

    slots = 4

    def __init__(self) -> None:
        self.compiled: list[tuple[str, str]] = []

    def compile(self, task: Task, candidate: Candidate, architecture: str) -> "Future[Any]":
        self.compiled.append((candidate.source, architecture))
        future: Future[Any] = Future()
        if "crashes" in candidate.source:
            future.set_exception(OwnerLost("the compiler was ended by SIGKILL"))
        else:
            future.set_result(SimpleNamespace(source=candidate.source))
        return future

    def close(self) -> None:
        pass


class FakeFleet:
    """A fleet of these owners. One that is lost is replaced `replacements` times."""

    demands_health = True

    def __init__(self, *owners: FakeOwner, replacements: int = 10) -> None:
        self.owners = list(owners)
        self.compilers = FakeCompilers()
        self.replaced: list[str] = []
        self.refused: list[tuple[str, str]] = []
        self.notes: list[tuple[str, str]] = []
        self.replacements = replacements
        self.join: Callable[[Owner], None] = lambda owner: None

    def start(self, join: Callable[[Owner], None]) -> None:
        self.join = join
        for owner in self.owners:
            join(owner)

    def replace(self, lost: Owner, why: str, *, fruitful: bool) -> None:
        self.replaced.append(lost.name)
        if len(self.replaced) <= self.replacements:
            assert isinstance(lost, FakeOwner)
            successor = FakeOwner(f"{lost.name}'", lost.kind, lost.gpu)
            successor.is_dead = lost.dead_successors > 0
            successor.dead_successors = max(0, lost.dead_successors - 1)
            self.owners.append(successor)
            self.join(successor)

    def refuse(self, owner: Owner, why: str) -> None:
        self.refused.append((owner.name, why))

    def note(self, owner: Owner, about: str) -> None:
        self.notes.append((owner.name, about))

    def hopeless(self) -> str | None:
        return "all were lost" if len(self.replaced) > self.replacements else None

    def close(self) -> None:
        for owner in self.owners:
            owner.end()


def _source(request: Request) -> str:
    if isinstance(request, EvaluateRequest):
        return request.candidate.source
    if isinstance(request, ProfileRequest):
        return ", ".join(one.source for one in request.candidates)
    return request.task.name if isinstance(request, PrepareRequest) else ""


def _kills(request: Request) -> bool:
    return "kills" in _source(request)


def _fails(request: Request) -> bool:
    return "fails" in _source(request)
