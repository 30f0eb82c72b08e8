"""Ask and tell: the judge and the knowledge base for a search loop of your own.

    with kb.session("core/level1/softmax") as search:
        search.tell(source)                     # a first CUDA source that you wrote: judges it
        for _ in range(5):
            advice = search.ask()               # techniques to try, the most promising first
            name = advice.options[0].optimization.technique
            search.tell(write(name), name)      # `write` is yours: returns a source with that technique
        print(search.best)

Everything is recorded in a run, and the knowledge base learns what each technique gained."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from kernelblaster import opening
from kernelblaster.api.result import OptimizeResult
from kernelblaster.api.searching import SearchRequest, runs_folder, start_run
from kernelblaster.api.subjects import CandidateLike, Inputs, TaskLike, load_candidate, load_task
from kernelblaster.errors import KernelBlasterError
from kernelblaster.judge.sweep import variants
from kernelblaster.knowledge.address import knowledge_at
from kernelblaster.knowledge.events import Provenance, Revised
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.retrieval import Neighbourhood
from kernelblaster.knowledge.seed import plant
from kernelblaster.opening import DeviceKind
from kernelblaster.plain_text import one_line
from kernelblaster.policies.expert.states import extract_states, possible_gain
from kernelblaster.policies.left_out import KernelFacts
from kernelblaster.records import Candidate, Evaluation, Optimization, Step, StepId, Target
from kernelblaster.records.kernel_name import source_name
from kernelblaster.records.recipe import is_recipe
from kernelblaster.records.signature import Dtype
from kernelblaster.records.step import Gained, compare
from kernelblaster.sessions.session import Advice, Session
from kernelblaster.sessions.settings import Search
from kernelblaster.store.history import UNLIMITED
from kernelblaster.store.results import leave_results
from kernelblaster.store.run import Run

NEUTRAL = 1.0  # predicted speedup of an unknown technique


class AskTell:
    """A search in which you write the candidates (CUDA sources); `session` makes it. Each candidate that
    `tell` gets is judged (verified and timed) and recorded in a run. If you also name the technique that the
    candidate applies, the knowledge base learns from it. Candidates that the run had recorded before are
    known from the start and not judged again. The attribute `run` is the run's folder."""

    def __init__(self, run: Run, knowledge: KnowledgeBase, session: Session) -> None:
        self.run = run.folder
        self._run = run
        self._knowledge = knowledge
        self._session = session
        self._parent: Candidate | None = None
        self._applied: dict[str, tuple[str, ...]] = {}
        self._advice: Advice | None = None
        self._steps = 0
        self._tried: list[Step] = []
        self._recall()

    @property
    def best(self) -> Evaluation | None:
        """The judge's evaluation of the fastest correct candidate so far; None if no candidate is correct."""
        ranked = self._session.judging.ranked()
        return ranked[0][1] if ranked else None

    def tell(
        self, candidate: CandidateLike, technique: str | None = None, description: str = ""
    ) -> Evaluation:
        """Judges a candidate (a `.cu` file or its text) and returns the evaluation. `technique` is the name
        of what you applied to the fastest correct candidate so far, the one that `ask` advises on. The
        knowledge base then learns how much the technique gained over that candidate. If `technique` is None,
        or no candidate was correct before, nothing is learned.

        The knowledge base need not know the technique yet. `description` explains a new one in words: `ask`
        offers a technique for other candidates only if it has a description.
        """
        return self._tell([load_candidate(candidate)], technique, description)[0]

    def sweep(
        self, candidate: CandidateLike, technique: str | None = None, description: str = ""
    ) -> tuple[Evaluation, list[Evaluation]]:
        """Judges a candidate with every combination of values of the tunable constants that its source
        declares (`// kernelblaster-tune: BLOCK = 128, 256`). Returns (the evaluation of the fastest correct
        combination, all evaluations); the first item is the first evaluation if none is correct. `technique`
        and `description` are as for `tell`; the knowledge base learns what the fastest combination gained.
        Raises KernelBlasterError for more than 64 combinations."""
        return self._tell(variants(load_candidate(candidate)), technique, description)

    def _tell(
        self, given: Sequence[Candidate], technique: str | None, description: str
    ) -> tuple[Evaluation, list[Evaluation]]:
        """Judges variants of one candidate, and teaches the knowledge base the gain of the best of them.
        Returns (the best one's evaluation, all evaluations)."""
        judging, parent = self._session.judging, self._parent
        advice = self.ask() if technique is not None and parent is not None else None
        if len(given) > 1:  # compiled together
            judging.judge_within_budget(f"sweep/{given[0].code}", given)
        evaluations = [judging.judge(one) for one in given]
        ranked = judging.ranked()
        codes = {one.code for one in given}
        best = next((one for one, _ in ranked if one.code in codes), given[0])
        before = () if parent is None or technique is None else (*self._applied[parent.code], technique)
        for one in given:
            self._applied.setdefault(one.code, before)
        self._parent, self._advice = (ranked[0][0], None) if ranked else (None, None)
        if technique is not None and parent is not None and advice is not None:
            self._learn(parent, best, technique, advice)
            self._describe(advice.state, technique, one_line(description))
        return judging.judge(best), evaluations

    def ask(self) -> Advice:
        """Returns techniques to try next on the fastest correct candidate so far, the most promising first.
        They are for one kernel of that candidate: the kernel in which the largest part of the time could be
        saved (`Advice.target`). Techniques that the task or the kernel cannot use, that were applied to it
        already, or that made it no faster are left out (`Advice.left_out`). The answer stays the same until
        `tell` is called. Raises KernelBlasterError if no candidate is correct yet."""
        if self._parent is None:
            raise KernelBlasterError("there is no correct candidate yet: tell one first.")
        if self._advice is None:
            self._advice = self._advise(self._parent)
        return self._advice

    def result(self) -> OptimizeResult:
        """Returns the best candidate so far with its run, in the same form as `optimize` does. Raises
        StoreError if no candidate is correct."""
        return OptimizeResult(self.run)

    def finish(self) -> None:
        """Writes the results into the run's folder, if a candidate is correct. `session` calls this when its
        block ends."""
        ranked = self._session.judging.ranked()
        if ranked:
            best = ranked[0][0]
            self._run.conclude("finished", lambda: {"best": self._run.files.put(best.source)})
            leave_results(self._run, best, self._applied[best.code], self._knowledge)

    def _recall(self) -> None:
        """Take over what the run has recorded already: its candidates with their verdicts, none of which is
        judged again, and the techniques that led to each."""
        recorded = [event.data["steps"] for event in self._run.events if event.kind == "steps"]
        self._steps = len(recorded)
        self._tried = [Step.model_validate(one) for steps in recorded for one in steps]
        for step in self._tried:
            self._applied[step.child] = (*step.before, step.technique)
        for event in [event for event in self._run.events if event.kind == "evaluation"]:
            defines = Evaluation.model_validate(event.data["evaluation"]).defines
            source = self._run.files.get(event.data["source"])
            known = Candidate(source=source, origin=f"run {self._run.name}", defines=defines)
            self._session.judging.judge(known)
            self._applied.setdefault(known.code, ())
        ranked = self._session.judging.ranked()
        self._parent = ranked[0][0] if ranked else None

    def _advise(self, parent: Candidate) -> Advice:
        """Advice on a candidate: profiles it, picks the kernel with the largest possible gain, and ranks the
        techniques that the knowledge base knows for the kernel's performance state (like "memory bound") and
        for similar states. Raises KernelBlasterError if it launches no kernel."""
        session = self._session
        profile = session.judging.profile([parent])[0]
        kernels = extract_states(profile, session.judging.floor_bytes) if profile else ()
        if not kernels:
            raise KernelBlasterError("the candidate launches nothing that could be profiled.")
        worst = max(kernels, key=possible_gain)
        target = Target(source_name(worst.kernel), worst.share, worst.state)
        session.begin_iteration(self._steps)
        around = Neighbourhood(session.memory.theta, worst.state)
        techniques = [one.technique for one in around.techniques(session.memory.architecture)]
        applied = self._applied[parent.code]
        facts = KernelFacts(session.task, parent.source, target.kernel, len(kernels), applied)
        left_out = {name: why for name in techniques if (why := self._why_not(facts, parent, name))}
        usable = [name for name in techniques if name not in left_out]
        advice = session.ask(target, usable, applied, parent)
        recipes = [one.optimization.technique for one in advice.options]
        left_out |= {name: why for name in recipes if (why := self._why_not(facts, parent, name))}
        options = [one for one in advice.options if one.optimization.technique not in left_out]
        options.sort(key=lambda one: -one.promise)
        return replace(advice, options=tuple(options), left_out=left_out)

    def _why_not(self, facts: KernelFacts, parent: Candidate, technique: str) -> str | None:
        """Why a technique is not to be advised for the kernel that `facts` describe, in a few words; None if
        it may be of use. A technique that failed on `parent`, the candidate to be changed, may be tried there
        again; one that was correct and gained nothing may not."""
        tried = {
            step.technique
            for step in self._tried
            if step.parent == parent.code and isinstance(step.result, Gained) and not step.taken
        }
        if technique in tried:
            return "tried on this candidate, and no faster"
        undescribed = not is_recipe(technique) and not self.is_described(technique)
        return facts.why_not(technique) or ("nobody has said what it is" if undescribed else None)

    def is_described(self, technique: str) -> bool:
        """Whether the knowledge base has a description of a technique, in any performance state."""
        known = self._session.memory.now().entries.values()
        return any(of[technique].description for of in known if technique in of)

    def _describe(self, state: str, technique: str, description: str) -> None:
        """Give a technique a description in a state, unless it has one there or `description` is empty."""
        entry = self._session.memory.now().entry(state, technique)
        if description and not entry.description:
            change = Revised(state=state, technique=technique, description=description)
            self._knowledge.record([change], Provenance(run=self._run.name))

    def _learn(self, parent: Candidate, child: Candidate, technique: str, advice: Advice) -> None:
        """Record the step from `parent` to `child`, both judged, and teach the knowledge base its speedup in
        the performance state of `advice`; a technique that `advice` does not list is added to that state."""
        session = self._session
        expected = {one.optimization.technique: one.prediction.speedup for one in advice.options}
        known = session.memory.now().entries.get(advice.state, {}).get(technique)
        if technique not in expected and known is not None:  # it was left out of the advice
            scored = known.scored(session.memory.architecture, self._applied[parent.code])
            expected[technique] = scored.prediction.speedup
        elif technique not in expected:
            title = technique.replace("_", " ")
            new = Optimization(technique=technique, title=title, description="", predicted=NEUTRAL)
            session.memory.offer(session.memory.now().states[advice.state].state, [new])
        evaluations = session.judging.evaluations
        step = Step(
            id=StepId(0, 0, self._steps),
            state=advice.state,
            technique=technique,
            predicted=expected.get(technique, NEUTRAL),
            result=compare(evaluations[child.code], evaluations[parent.code]),
            taken=self._parent is not None and self._parent.code == child.code,
            kernel=advice.target.kernel,
            share=advice.target.share,
            before=self._applied[parent.code],
            parent=parent.code,
            child=child.code,
        )
        session.learn(str(self._steps), [step])
        self._tried.append(step)
        self._steps += 1


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
    """A context that opens a search whose candidates you write, and gives it as an `AskTell`. `task` is what
    to compute: a name, a file, source text, or a module with example `inputs`. `device` says where candidates
    run; `gpu` is the GPU that an emulated device stands for. `knowledge` (a path or URL) is the knowledge
    base that is read and taught, `runs` the folder in which the run is kept; None: the user's own. `dtype` is
    what floating tensors are cast to, None for their own types. The number of candidates is not limited.
    Results are written when the block ends without an error."""
    loaded = load_task(task, dtype, inputs=inputs)
    search = Search(evaluations=UNLIMITED)
    where = knowledge_at(knowledge)
    wanted = SearchRequest(loaded.name, search, where, device, gpu, loaded.dtype)
    with (
        start_run(loaded, wanted, runs_folder(runs)) as run,
        KnowledgeBase(where) as known,
        opening.open_searching(device, gpu) as judge,
    ):
        plant(known)
        run.once("device", "begun", lambda: {"name": judge.device.name})
        asking = AskTell(run, known, Session(loaded, judge, known, run, search))
        yield asking
        asking.finish()
