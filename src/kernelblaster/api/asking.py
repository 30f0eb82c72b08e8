"""Ask and tell: the judge and the knowledge base for a loop that someone else writes.

with kb.session("core/level1/softmax") as search:
    search.tell(first_source)
    advice = search.ask()
    search.tell(write(advice), technique=advice.options[0].optimization.technique)
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kernelblaster import opening
from kernelblaster.api.result import OptimizeResult
from kernelblaster.api.searching import Wanted, begun, runs_folder
from kernelblaster.api.subjects import CandidateLike, Inputs, TaskLike, load_candidate, load_task
from kernelblaster.errors import KernelBlasterError
from kernelblaster.knowledge.address import knowledge_at
from kernelblaster.knowledge.content import Scored
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.recipes import is_recipe
from kernelblaster.knowledge.seed import plant
from kernelblaster.opening import DeviceKind
from kernelblaster.optimize import RunSession
from kernelblaster.policies.expert.states import extract_states, possible_gain
from kernelblaster.policies.policy import Target
from kernelblaster.records import Candidate, Evaluation, Optimization, Step
from kernelblaster.records.kernel_name import source_name
from kernelblaster.records.signature import Dtype
from kernelblaster.store.results import leave_results
from kernelblaster.store.run import Run
from kernelblaster.strategies.search import Search, gain

UNLIMITED = 1 << 30  # candidates: who brings the loop says when it ends
NEUTRAL = 1.0  # what is promised of a technique that nobody knows


@dataclass(frozen=True)
class Advice:
    """What the knowledge base expects in the state of the kernel that is most worth optimizing; the most
    promising first. Each option has an `optimization` (technique, title, description), a `prediction`
    (speedup, interval, valid_chance) and notes."""

    kernel: str
    share: float
    state: str
    description: str
    options: tuple[Scored, ...]

    def __str__(self) -> str:
        lines = [f"{self.kernel} ({self.share:.0%} of the time) is in the state {self.state}"]
        lines += [
            f"  {one.optimization.technique}: {one.prediction.speedup:.2f}x expected" for one in self.options
        ]
        return "\n".join(lines)


class AskTell:
    """An open session, see `session`. Candidates are judged and recorded in a run; a step whose technique
    is named is evidence for the knowledge base."""

    def __init__(self, run: Run, knowledge: KnowledgeBase, session: RunSession) -> None:
        self.run = run.folder
        self._run = run
        self._knowledge = knowledge
        self._session = session
        self._at: Candidate | None = None
        self._ways: dict[str, tuple[str, ...]] = {}
        self._advice: Advice | None = None
        self._steps = 0

    @property
    def best(self) -> Evaluation | None:
        """Of the fastest correct candidate so far; None as long as there is none."""
        ranked = self._session.ranked()
        return ranked[0][1] if ranked else None

    def tell(self, candidate: CandidateLike, technique: str | None = None) -> Evaluation:
        """Judge a candidate. With a `technique`, this is a step from the candidate that `ask` speaks of, and
        what it gained there is learned. The fastest correct candidate is what is asked about next."""
        given = load_candidate(candidate)
        before = self._at
        advice = self.ask() if technique is not None and before is not None else None
        evaluation = self._session.first(given)
        self._ways.setdefault(given.code, self._way(before, technique))
        ranked = self._session.ranked()
        self._at, self._advice = (ranked[0][0], None) if ranked else (None, None)
        if technique is not None and before is not None and advice is not None:
            self._learn(before, given, technique, advice)
        return evaluation

    def ask(self) -> Advice:
        """What to try next on the fastest candidate so far."""
        if self._at is None:
            raise KernelBlasterError("there is no correct candidate yet: tell one first.")
        if self._advice is None:
            self._advice = self._advise(self._at)
        return self._advice

    def result(self) -> OptimizeResult:
        """The best so far, as `optimize` returns it."""
        return OptimizeResult(self.run)

    def finish(self) -> None:
        """Leave the results in the run's folder; without a correct candidate there are none."""
        ranked = self._session.ranked()
        if ranked:
            best = ranked[0][0]
            self._run.once("finished", "end", lambda: {"best": self._run.files.put(best.source)})
            leave_results(self._run, best, self._ways[best.code], self._knowledge)

    def _advise(self, at: Candidate) -> Advice:
        profile = self._session.profile([at])[0]
        kernels = extract_states(profile, self._session.floor_bytes) if profile else ()
        if not kernels:
            raise KernelBlasterError("the candidate launches nothing that could be profiled.")
        worst = max(kernels, key=possible_gain)
        target = Target(source_name(worst.kernel), worst.share, worst.state)
        theta = self._session.theta(self._steps)
        known = theta.entries.get(self._knowledge.match(worst.state), {})
        techniques = [name for name, e in known.items() if e.retired is None and not is_recipe(name)]
        applied = self._ways[at.code]
        place = self._session.evaluations[at.code]
        state, scored = self._session.options(theta, target, techniques, applied, place)
        options = sorted(scored, key=lambda one: -one.promise)
        return Advice(target.kernel, target.share, state, worst.state.description, tuple(options))

    def _learn(self, parent: Candidate, child: Candidate, technique: str, advice: Advice) -> None:
        expected = {one.optimization.technique: one.prediction.speedup for one in advice.options}
        if technique not in expected:
            title = technique.replace("_", " ")
            new = Optimization(technique=technique, title=title, description="", predicted=NEUTRAL)
            state = self._session.now().states[advice.state].state
            self._session.offer(state, [new])
        old, new_ = self._session.evaluations[parent.code], self._session.evaluations[child.code]
        step = Step(
            place=f"0/0/{self._steps}/0",
            state=advice.state,
            technique=technique,
            predicted=expected.get(technique, NEUTRAL),
            result=gain(new_, old),
            taken=self._at is not None and self._at.code == child.code,
            kernel=advice.kernel,
            share=advice.share,
            before=self._ways[parent.code],
            parent=parent.code,
            child=child.code,
        )
        self._session.learn(str(self._steps), [step])
        self._steps += 1

    def _way(self, before: Candidate | None, technique: str | None) -> tuple[str, ...]:
        if before is None or technique is None:
            return ()
        return (*self._ways[before.code], technique)


@contextmanager
def session(
    task: TaskLike,
    inputs: Inputs | None = None,
    *,
    device: DeviceKind = "auto",
    gpu: str | None = None,
    knowledge: str | Path | None = None,
    runs: str | Path | None = None,
    dtype: Dtype | None = None,
) -> Iterator[AskTell]:
    """A search whose candidates come from outside; arguments as for `optimize`. When the block ends, its
    run has results like any other."""
    loaded = load_task(task, dtype, inputs=inputs)
    search = Search(evaluations=UNLIMITED)
    where = knowledge_at(knowledge)
    wanted = Wanted(loaded.name, search, where, device, gpu, loaded.dtype)
    with (
        begun(loaded, wanted, runs_folder(runs)) as run,
        KnowledgeBase(where) as known,
        opening.open_searching(device, gpu) as judge,
    ):
        plant(known)
        run.once("device", "begun", lambda: {"name": judge.device.name})
        asking = AskTell(run, known, RunSession(loaded, judge, known, run, search))
        yield asking
        asking.finish()
