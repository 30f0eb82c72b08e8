"""Recorded cases, and a session in memory, for tests of single roles."""

import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import log
from pathlib import Path
from typing import Any

from kernelblaster.devices.specs import GpuSpec, gpu_specs
from kernelblaster.knowledge.content import Content
from kernelblaster.knowledge.events import OptimizationAdded, Provenance, StateAdded
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.retrieval import known_state
from kernelblaster.knowledge.seed import plant
from kernelblaster.models.failures import ModelError
from kernelblaster.models.request import Reply, Request, T
from kernelblaster.policies.expert.states import extract_states, possible_gain
from kernelblaster.policies.llm.asker import Asker
from kernelblaster.policies.llm.digest import kernel_name
from kernelblaster.policies.llm.scene import Scene
from kernelblaster.policies.llm.source import kernel_names, parts_of
from kernelblaster.policies.policy import Target
from kernelblaster.records import (
    Candidate,
    Evaluation,
    Floor,
    Metric,
    Optimization,
    Profile,
    State,
    Step,
    Task,
)
from kernelblaster.sessions.settings import Search
from kernelblaster.sessions.steering import Steering

DATA = Path(__file__).parent / "data"
FLOOR_BYTES = 2 * 4 * 4096 * 2048


@dataclass(frozen=True)
class Case:
    """A task, a candidate for it and the candidate's profile."""

    task: Task
    candidate: Candidate
    profile: Profile

    @property
    def target(self) -> Target:
        """The kernel most worth optimizing."""
        best = max(extract_states(self.profile, FLOOR_BYTES), key=possible_gain)
        return Target(kernel_name(best.kernel), best.share, best.state, "pointwise")


@cache
def relu() -> tuple[Case, Evaluation]:
    told = json.loads((DATA / "relu.json").read_text())
    evaluation = Evaluation.model_validate_json(json.dumps(told["evaluation"]))
    assert evaluation.profile is not None
    candidate = Candidate(source=told["source"], origin="expert: initial")
    return Case(Task.model_validate_json(json.dumps(told["task"])), candidate, evaluation.profile), evaluation


@cache
def case(name: str) -> Case:
    """`small`, `middle` or `largest`. Each kernel's profile has the metrics of a recorded one; its time
    is as long as its source."""
    told = json.loads((DATA / f"{name}.json").read_text())
    pattern = relu()[0].profile
    lengths = {part.name: part.lines for part in parts_of(told["source"])}
    kernels = []
    for kernel in kernel_names(told["source"]):
        time = Metric(name="Duration", unit="us", value=float(lengths[kernel]), tier="modelled")
        metrics = (time, *pattern.kernels[0].metrics[1:])
        kernels.append(pattern.kernels[0].model_copy(update={"name": kernel, "metrics": metrics}))
    profile = pattern.model_copy(update={"kernels": tuple(kernels)})
    return Case(Task.model_validate_json(json.dumps(told["task"])), Candidate(source=told["source"]), profile)


@cache
def planted() -> Content:
    with tempfile.TemporaryDirectory() as folder, KnowledgeBase(Path(folder) / "kb.db") as knowledge:
        plant(knowledge)
        return knowledge.content()


@dataclass
class SessionInMemory:
    """What a policy needs of a `Session`, in memory. `verdict` says what becomes of a candidate."""

    verdict: Callable[[Candidate], Evaluation] | None = None
    modelled: bool = True
    evaluations: dict[str, Evaluation] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    events: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    content: Content = field(default_factory=lambda: planted().copy())
    offered: list[Optimization] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    withdrawn: list[str] = field(default_factory=list)
    search: Search = field(default_factory=Search)
    floor: Floor = field(
        default_factory=lambda: Floor(bytes=FLOOR_BYTES, certain_bytes=FLOOR_BYTES, operations=0)
    )
    steering: Steering | None = None

    @property
    def gpu(self) -> GpuSpec:
        return gpu_specs()["h200"]

    @property
    def judging(self) -> "SessionInMemory":
        return self

    memory = log = judging

    def now(self) -> Content:
        return self.content

    def once(self, kind: str, key: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if (kind, key) not in self.events:
            self.events[kind, key] = json.loads(json.dumps(compute()))
        return self.events[kind, key]

    def judge(self, candidate: Candidate) -> Evaluation:
        assert self.verdict is not None
        return self.evaluations.setdefault(candidate.code, self.verdict(candidate))

    def withdraw(self, code: str, steps: Sequence[Step]) -> None:
        self.withdrawn.append(code)

    def source(self, code: str) -> str | None:
        return self.sources.get(code)

    def tuned(self, candidate: Candidate, most: int) -> Candidate:
        return candidate

    def offer(self, state: State, optimizations: Sequence[Optimization], parent: Evaluation | None) -> str:
        self.offered += optimizations
        name = known_state(self.content, state)
        if name is None:
            self.content.apply(StateAdded(state=state), Provenance())
            name = state.name
        for optimization in optimizations:
            self.content.apply(
                OptimizationAdded(state=name, optimization=optimization, weight=0.5), Provenance()
            )
        return name


class Scripted:
    """Implements `Model`: an answer for each role in turn, or an error; the last one again and again."""

    def __init__(self, **answers: object) -> None:
        self.answers = {role.replace("_", "-"): answer for role, answer in answers.items()}
        self.requests: list[Request[Any]] = []

    def ask(self, request: Request[T]) -> Reply[T]:
        self.requests.append(request)
        count = sum(r.role == request.role for r in self.requests)
        answer = self.answers[request.role]
        if isinstance(answer, list):
            answer = answer[min(count, len(answer)) - 1]
        if isinstance(answer, ModelError):
            raise answer
        return Reply(value=request.schema.model_validate(answer), text="", model="scripted", usage=None)

    @property
    def asked(self) -> list[str]:
        return [request.role for request in self.requests]

    def prompt(self, number: int = -1) -> str:
        return self.requests[number].messages[-1].text


def scene_of(case: Case, session: SessionInMemory | None = None, model: Scripted | None = None) -> Scene:
    session = session or SessionInMemory()
    return Scene(case.task, session, Asker(model or Scripted(), session.once, case.task.name))


def tried(parent: Candidate, technique: str, result: float | str, **fields: Any) -> Step:
    """A step from a candidate, for histories."""
    about: dict[str, Any] = {"id": "0/0/0/0", "state": "latency", "predicted": 1.5, "taken": False}
    told = {**about, "technique": technique, "result": result, "parent": parent.code, **fields}
    return Step.model_validate(told)


def speedup_of(factor: float) -> float:
    return log(factor)
