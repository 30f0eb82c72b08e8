"""Make one task faster: a policy's candidates, the judge's verdicts, and a knowledge base that learns.

with open_judge("emulated", profile=True) as judge, KnowledgeBase("kb.db") as knowledge:
    found = optimize(task, judge, knowledge, create_run(Path("runs")), Search(seed=1))
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernelblaster.errors import KernelBlasterError
from kernelblaster.judge.judge import Judge
from kernelblaster.knowledge.content import Content, Scored
from kernelblaster.knowledge.events import Observed, Provenance
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.policies.expert.policy import ExpertPolicy
from kernelblaster.policies.policy import Policy
from kernelblaster.records import Candidate, Evaluation, Optimization, State, Task
from kernelblaster.store.run import Run
from kernelblaster.strategies.maic_rl import MaicRl
from kernelblaster.strategies.search import BudgetSpent, Search, Step

UNKNOWN_GAIN, UNKNOWN_WEIGHT = 1.1, 0.5  # what is expected of a technique that nothing is known of
NEAR_FLOOR = 1.05
Tell = Callable[["Progress"], None]


@dataclass(frozen=True)
class Progress:
    """What a watcher sees after each step."""

    step: Step | None
    best_us: float
    floor_us: float
    evaluations: int


@dataclass(frozen=True)
class Optimized:
    """The best candidate with its verdict, the first one's verdict, and the way between them."""

    candidate: Candidate
    evaluation: Evaluation
    first: Evaluation
    applied: tuple[str, ...]
    steps: list[Step]


def optimize(
    task: Task,
    judge: Judge,
    knowledge: KnowledgeBase,
    run: Run,
    search: Search,
    policy: Policy | None = None,
    tell: Tell = lambda progress: None,
) -> Optimized:
    """Search from the policy's first candidate. A run that was begun before is continued: what it
    recorded is not done again."""
    if not judge.options.profile:
        raise KernelBlasterError("the judge must profile: states are named from profiles.")
    session = _Session(task, judge, knowledge, run, search, tell)
    strategy = MaicRl(policy or ExpertPolicy(), session, search)
    best = strategy.run(task)
    first = session.first
    assert first is not None
    found = Optimized(best.attempt.candidate, best.evaluation, first, best.applied, strategy.steps)
    run.once("finished", "end", lambda: {"best": run.files.put(found.candidate.source)})
    _write_results(run, found)
    return found


class _Session:
    """Implements `Session` on a run, a judge and a knowledge base."""

    def __init__(
        self, task: Task, judge: Judge, knowledge: KnowledgeBase, run: Run, search: Search, tell: Tell
    ) -> None:
        self._task = task
        self._judge = judge
        self._knowledge = knowledge
        self._run = run
        self._search = search
        self._tell = tell
        self._judged: set[str] = set()
        self._best_us = float("inf")
        self._floor_us = 0.0
        self.first: Evaluation | None = None
        self.floor_bytes = judge.prepare(task)[1].bytes
        self.architecture = judge.device.spec.architecture

    def evaluate(self, candidate: Candidate) -> Evaluation:
        if candidate.digest not in self._judged and len(self._judged) >= self._search.evaluations:
            raise BudgetSpent
        self._judged.add(candidate.digest)
        data = self._run.once("evaluation", candidate.digest, lambda: self._evaluate(candidate))
        evaluation = Evaluation.model_validate(data["evaluation"])
        self.first = self.first or evaluation
        if evaluation.timing:
            self._best_us = min(self._best_us, evaluation.timing.candidate_us)
            self._floor_us = evaluation.timing.floor_us
        return evaluation

    def _evaluate(self, candidate: Candidate) -> dict[str, Any]:
        source = self._run.files.put(candidate.source)
        evaluation = self._judge.evaluate(self._task, candidate)
        return {"source": source, "evaluation": json.loads(evaluation.model_dump_json())}

    def theta(self, iteration: int) -> Content:
        begun = self._run.once("theta", str(iteration), lambda: {"version": self._knowledge.version})
        return self._knowledge.at(begun["version"])

    def once(self, kind: str, key: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        return self._run.once(kind, key, compute)

    def options(
        self, theta: Content, state: State, techniques: tuple[str, ...], applied: tuple[str, ...]
    ) -> tuple[str, list[Scored]]:
        provenance = self._provenance(None)
        name = self._knowledge.match(state, provenance)
        for technique in techniques:
            title = technique.replace("_", " ")
            guess = Optimization(technique=technique, title=title, description="", predicted=UNKNOWN_GAIN)
            self._knowledge.add_optimization(name, guess, UNKNOWN_WEIGHT, provenance)
        now = self._expected(self._knowledge.content(), name, applied)
        before = self._expected(theta, name, applied) if name in theta.states else {}
        return name, [before.get(t, now[t]) for t in techniques if t in now]

    def _expected(self, content: Content, state: str, applied: tuple[str, ...]) -> dict[str, Scored]:
        scored = content.optimizations(state, self.architecture, applied)
        return {s.optimization.technique: s for s in scored}

    def learn(self, step: Step, before: tuple[str, ...], parent: Candidate, child: Candidate) -> None:
        if step.result != "Unsupported":
            change = Observed(state=step.state, technique=step.technique, result=step.result, before=before)  # type: ignore[arg-type]
            uid = f"{self._run.name}/{parent.digest}/{child.digest}"
            self._knowledge.take_over([(change, self._provenance(child), uid)])
        self._tell(Progress(step, self._best_us, self._floor_us, len(self._judged)))

    def good_enough(self, evaluation: Evaluation) -> bool:
        timing = evaluation.timing
        return timing is not None and timing.candidate_us <= NEAR_FLOOR * timing.floor_us

    def _provenance(self, candidate: Candidate | None) -> Provenance:
        return Provenance(
            run=self._run.name,
            candidate=candidate.digest if candidate else None,
            gpu=self._judge.device.spec.name,
            architecture=self.architecture,
            task=self._task.name,
        )


def _write_results(run: Run, found: Optimized) -> None:
    """best.cu, and the trajectory, for those who look into the folder."""
    (run.folder / "best.cu").write_text(found.candidate.source)
    steps = [
        {"place": s.place, "state": s.state, "technique": s.technique, "predicted": s.predicted}
        | ({"log_speedup": s.result} if isinstance(s.result, float) else {"failure": s.result})
        | {"taken": s.taken}
        for s in found.steps
    ]
    (run.folder / "trajectory.json").write_text(json.dumps(steps, indent=1) + "\n")
