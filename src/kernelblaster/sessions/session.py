"""The interface for whoever writes a search loop: ask the knowledge base for advice on a kernel, have
candidates judged, and learn from the results. Everything is recorded in one run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kernelblaster.judge.protocol import Judge
from kernelblaster.knowledge.content import Scored
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.records import Candidate, Evaluation, Step, Target, Task
from kernelblaster.sessions.judging import Judging
from kernelblaster.sessions.log import Log, Trial, Watcher, unwatched
from kernelblaster.sessions.memory import Memory
from kernelblaster.sessions.settings import Search
from kernelblaster.sessions.steering import Steering
from kernelblaster.store.run import Run


@dataclass(frozen=True)
class Advice:
    """What the knowledge base expects of techniques on `target`, a kernel of a candidate. `state` is the name
    of the performance state that the kernel is in. Each of the `options` has an `optimization` (technique,
    title, description), a `prediction` (speedup, interval, chance of a valid candidate) and notes. `left_out`
    has known techniques that are no options because they are of no use there; it maps the name of each to the
    reason."""

    target: Target
    state: str
    options: tuple[Scored, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [
            f"{self.target.kernel} ({self.target.share:.0%} of the time) is in the state {self.state}",
            *(f"  {o.optimization.technique}: {o.prediction.speedup:.2f}x expected" for o in self.options),
        ]
        return "\n".join(lines)


class Session:
    """The services that a search loop uses for one task and one run: it has candidates judged by `judge`,
    asks and teaches the knowledge base, and records everything. `judging` makes and keeps the evaluations,
    `memory` reads and teaches the knowledge base, `log` records choices and tells the `watcher`, and
    `steering` has what people ask of the search while it runs. `search` are its settings, `gpu` is the GPU's
    specification; `modelled`: times come from a model of the GPU."""

    def __init__(
        self,
        task: Task,
        judge: Judge,
        knowledge: KnowledgeBase,
        run: Run,
        search: Search,
        watcher: Watcher = unwatched,
    ) -> None:
        self.task = task
        self.search = search
        self.gpu = judge.device.spec
        self.modelled = judge.device.modelled
        self.steering = Steering(run)
        self.judging = Judging(task, judge, run, search, self.steering.check)
        self.memory = Memory(task, self.gpu, knowledge, run, self.judging, search.seed)
        self.log = Log(run, self.judging, self.steering, watcher, modelled=self.modelled)

    def steer(self, key: str) -> None:
        """Obeys what people have asked of the search since the last call: which techniques to try first or
        not at all, notes for the language model, other limits. To be called between two steps. `key` names
        this call in the run's record and must be unique in the run. Raises SearchStopped if they have asked
        to stop."""
        for limits in self.steering.take(key):
            self.judging.budget.change(limits)

    def begin_iteration(self, iteration: int) -> None:
        """Begins iteration number `iteration`, from 0. Until the next one begins, `ask` answers by the
        content that the knowledge base has now."""
        self.log.iteration = iteration
        self.memory.freeze(iteration)

    def ask(
        self, target: Target, techniques: Sequence[str], applied: tuple[str, ...], parent: Candidate
    ) -> Advice:
        """Returns what the knowledge base expects of `techniques`, and of known recipes (several techniques
        in one step), on `target`, a kernel of the candidate `parent`, which must have been judged. `applied`
        are the techniques that led to `parent`. If the knowledge base has no performance state near the
        kernel's, the kernel's state is added; techniques that are new in the state are added too."""
        evaluation = self.judging.evaluations[parent.code]
        state, options = self.memory.retrieve(target, techniques, applied, evaluation)
        return Advice(target, state, tuple(options))

    def tell(self, key: str, trials: Sequence[Trial]) -> list[Evaluation | None]:
        """Has the candidates of these trials judged together, and returns their evaluations in the same
        order, with None for those that the budget does not allow. `key` names the batch in the run's record
        and must be unique in the run."""
        for trial in trials:
            self.log.judging(trial)
        shown = [trial.shown for trial in trials]
        return self.judging.judge_within_budget(key, [trial.candidate for trial in trials], shown)

    def learn(self, key: str, steps: Sequence[Step]) -> None:
        """Teaches the knowledge base the results of these steps, each for its technique in the performance
        state of the candidate before it, and reports the steps to the watcher (the function that is called
        with progress). `key` names them in the run's record and must be unique in the run."""
        self.memory.observe(key, steps)
        for step in steps:
            self.log.stepped(step)
