"""A policy in which a language model plays some of the roles, and the expert the others."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kernelblaster.errors import KernelBlasterError
from kernelblaster.knowledge.content import Content
from kernelblaster.knowledge.events import Change, Observed
from kernelblaster.knowledge.retrieval import known_state
from kernelblaster.models.request import Model
from kernelblaster.policies.expert.policy import ExpertPolicy, Form
from kernelblaster.policies.expert.states import extract_states, possible_gain
from kernelblaster.policies.llm.asker import Asker
from kernelblaster.policies.llm.digest import kernel_name
from kernelblaster.policies.llm.feedback import feedback
from kernelblaster.policies.llm.gap_analyst import explain_by_model
from kernelblaster.policies.llm.initial_writer import NoFirstCandidate, write_initial
from kernelblaster.policies.llm.knowledge_updater import notes_by_model
from kernelblaster.policies.llm.knowledge_view import proven, techniques
from kernelblaster.policies.llm.lowerer import Lowering, lower, mend_lowering
from kernelblaster.policies.llm.policy_evaluator import instructive
from kernelblaster.policies.llm.proposer import Proposed, propose
from kernelblaster.policies.llm.rewriting import Rewritten
from kernelblaster.policies.llm.roles import Cast
from kernelblaster.policies.llm.scene import Scene
from kernelblaster.policies.llm.soft_verifier import Review, review_by_model, review_by_rules
from kernelblaster.policies.llm.source import ENTRY, kernel_names
from kernelblaster.policies.llm.state_extractor import states_by_model
from kernelblaster.policies.llm.state_matcher import match_by_model
from kernelblaster.policies.policy import Attempt, Discrepancy, Gap
from kernelblaster.policies.rewrites.own_source import OwnSource
from kernelblaster.records import Candidate, Evaluation, Profile, State, Task
from kernelblaster.records.profile import Depth
from kernelblaster.records.recipe import is_recipe
from kernelblaster.records.target import Target
from kernelblaster.sessions.session import Session
from kernelblaster.store.replay import Sample

PROVEN = 3  # techniques that are known to pay in a state, from which on the model is not asked for more
DECLINED = 3  # techniques that the model may find impossible on a kernel before it is left alone with it
KNOWN_OFFERED = 6  # techniques of the knowledge base that a kernel without a plan is offered


@dataclass(frozen=True)
class Written:
    """The `form` of a candidate that a model wrote. `families` are the computation families of its kernels by
    name, None where unknown; `lowering` is the request that it answers, which a retry repeats, None for a
    first candidate."""

    families: Mapping[str, str | None] = field(default_factory=dict)
    lowering: Lowering | None = None


@dataclass
class _Seen:
    """The profile of a candidate, and the least memory traffic of the task in bytes."""

    profile: Profile
    floor_bytes: int


class MixedPolicy:
    """Implements `Policy` with a language model in the roles that `cast` gives it, and the expert's rules in
    the others and wherever the model has no usable answer. An attempt's form is the expert's (`Form`) as long
    as only the expert has changed it, and `Written` from then on: techniques are then applied by the model
    alone. `whole_profiles`: prompts show all metrics instead of a digest."""

    depth: Depth = "usual"  # prompts contain the profiler's advice

    def __init__(
        self,
        expert: ExpertPolicy,
        cast: Cast,
        model: Model,
        session: Session,
        *,
        whole_profiles: bool = False,
    ) -> None:
        self._expert = expert
        self._cast = cast
        self._model = model
        self._session = session
        self._whole_profiles = whole_profiles
        self._scene: Scene | None = None
        self._seen: dict[str, _Seen] = {}
        self._described: dict[str, str] = {}
        self._inapplicable: dict[tuple[str, str], State] = {}
        self._declined: Counter[tuple[str, str]] = Counter()

    @property
    def scene(self) -> Scene:
        """The context of the current task for prompts; `begin` or `initial` must have been called."""
        assert self._scene is not None, "begin() or initial() comes first"
        return self._scene

    def begin(self, task: Task) -> Scene:
        """Set the task that later questions are about: creates its prompt context with an asker that records
        into the session's log, and returns it. `initial` calls this; strategies that only use the prompts
        call it alone."""
        asker = Asker(self._model, self._session.log.once, task.name, self._session.steering)
        self._scene = Scene(task, self._session, asker, self._whole_profiles)
        return self._scene

    # Writing

    def initial(self, task: Task) -> Attempt:
        """The task's own source if it is a CUDA file; else the expert's kernels if it covers the task, else
        the model's. If the cast has the model write them and it fails, the expert's. Raises
        `NoFirstCandidate` if nobody has one."""
        self.begin(task)
        if task.kind == "cuda" and ENTRY in task.source:
            return Attempt(Candidate(source=task.source, origin="task"), OwnSource(task.source))
        if not self._cast.llm("initial-writer"):
            try:
                return self._expert.initial(task)
            except KernelBlasterError:
                pass  # it has no kernels for this task: the model writes them
        try:
            return Attempt(write_initial(self.scene), Written())
        except NoFirstCandidate as failed:
            if not self._cast.llm("initial-writer"):
                raise  # the expert was asked before
            try:
                return self._expert.initial(task)
            except KernelBlasterError:
                raise failed from None

    def moves(self, attempt: Attempt, technique: str, target: Target) -> Iterator[Attempt]:
        """The model's candidate, then the expert's. The model is asked once, and not for recipes."""
        if self._cast.llm("lowerer") and not is_recipe(technique):
            written = self._lowered(attempt, technique, target)
            if written is not None:
                yield written
        if isinstance(attempt.form, Form):
            yield from self._expert.moves(attempt, technique, target)

    def retry(
        self, parent: Attempt, technique: str, failed: Attempt, evaluation: Evaluation
    ) -> Attempt | None:
        """For a candidate that the model wrote, its correction given the judge's feedback (None if it has
        none); for others the expert's."""
        if not isinstance(failed.form, Written) or failed.form.lowering is None:
            return self._expert.retry(parent, technique, failed, evaluation)
        said = feedback(evaluation, failed.candidate.source)
        lowering = failed.form.lowering
        return self._written(lowering, mend_lowering(self.scene, lowering, failed.candidate, said), parent)

    def _lowered(self, attempt: Attempt, technique: str, target: Target) -> Attempt | None:
        """The model's candidate for a technique. None if it declined or had no usable answer, or without
        asking once it has declined DECLINED techniques on this kernel. A declined technique is remembered as
        inapplicable in the state."""
        kernel_of = (attempt.candidate.code, target.kernel)
        if self._declined[kernel_of] >= DECLINED:
            return None
        seen = self._seen[attempt.candidate.code]
        lowering = Lowering(attempt.candidate, technique, target, seen.profile, seen.floor_bytes)
        rewritten = lower(self.scene, lowering, self._described.get(technique, ""))
        if rewritten.declined:
            self._declined[kernel_of] += 1
            self._inapplicable[target.state.name, technique] = target.state
        return self._written(lowering, rewritten, attempt)

    def _written(self, lowering: Lowering, rewritten: Rewritten, parent: Attempt) -> Attempt | None:
        """The model's source as an attempt, with its summary kept for later prompts; None if there is no
        source. New kernels get the family of the lowering's target."""
        if rewritten.source is None:
            return None
        origin = f"llm: {lowering.technique}"
        candidate = Candidate(source=rewritten.source, origin=origin, parent=parent.candidate.digest)
        self.scene.summaries[candidate.code] = rewritten.summary
        before = _families(parent)
        families = {name: before.get(name, lowering.target.family) for name in kernel_names(rewritten.source)}
        form = Written(families, lowering)
        return Attempt(candidate, form, frozenset({lowering.target.kernel}), (lowering.technique,))

    # Naming states, proposing

    def targets(self, attempt: Attempt, profile: Profile, floor_bytes: int) -> Sequence[Target]:
        """As `Policy.targets`, with the states named by the model or the expert as the cast says. Also keeps
        the profile for later prompts about this candidate, so it must be called before `moves` and
        `proposals`."""
        self._seen[attempt.candidate.code] = _Seen(profile, floor_bytes)
        if self._cast.llm("state-extractor"):
            states = states_by_model(self.scene, attempt.candidate, profile, floor_bytes)
        else:
            states = extract_states(profile, floor_bytes)
        families, found = _families(attempt), []
        for kernel in sorted(states, key=possible_gain, reverse=True):
            name = kernel_name(kernel.kernel)
            if name in families:
                state = kernel.state
                if self._cast.llm("state-matcher"):
                    state = match_by_model(self.scene, state)
                found.append(Target(name, kernel.share, state, families[name]))
        return found

    def proposals(self, attempt: Attempt, target: Target) -> Sequence[str]:
        """Techniques of the expert, of the knowledge base, and new ones of the model, which are also added to
        the knowledge base. If the cast has no model to write the code, only the expert's."""
        can = list(self._expert.proposals(attempt, target)) if isinstance(attempt.form, Form) else []
        proposed = self._proposed(attempt, target)
        lowered = self._cast.llm("lowerer")
        new = [one for one in proposed.new if lowered or one.technique in can]
        if new:
            self._session.memory.offer(target.state, new)
        if not lowered:
            return can
        content = self._session.memory.now()
        name = known_state(content, target.state) or target.state.name
        known = [t for t, _ in techniques(content, name, self.scene.architecture, KNOWN_OFFERED)]
        names = dict.fromkeys((*(one.technique for one in new), *can, *known))
        return [name for name in names if name in can or name not in proposed.inapplicable]

    def _proposed(self, attempt: Attempt, target: Target) -> Proposed:
        """The model's proposals for a kernel; empty, without asking, if the state has PROVEN techniques that
        pay or the cast has no proposer."""
        content = self._session.memory.now()
        name = known_state(content, target.state)
        enough = name is not None and proven(content, name, self.scene.architecture) >= PROVEN
        if enough or not self._cast.llm("proposer"):
            return Proposed([])
        seen = self._seen[attempt.candidate.code]
        found = propose(self.scene, attempt.candidate, target, seen.profile, seen.floor_bytes)
        self._described |= {one.technique: one.description for one in found.new}
        return found

    # Learning

    def evaluate(
        self, fresh: Sequence[Sample], earlier: Sequence[Sample], theta: Content, architecture: str
    ) -> Sequence[Discrepancy]:
        """The expert's discrepancies; if the model is the evaluator, only those that it finds worth
        explaining, in its order."""
        found = self._expert.evaluate(fresh, earlier, theta, architecture)
        if not self._cast.llm("policy-evaluator"):
            return found
        return instructive(self.scene, found, f"version {theta.version}")

    def explain(self, discrepancies: Sequence[Discrepancy], now: Content) -> Sequence[Gap]:
        """Causes of the surprising discrepancies, from the model or from the expert's rules, whichever has
        the role of gap analyst."""
        if not self._cast.llm("gap-analyst"):
            return self._expert.explain(discrepancies, now)
        surprising = [found for found in discrepancies if found.surprising]
        return explain_by_model(self.scene, surprising, now, f"version {now.version}")

    def update(self, gaps: Sequence[Gap], now: Content) -> Sequence[Change]:
        """The expert's changes, with its notes replaced by the model's if there are any. Techniques that the
        model declined since the last update are recorded as `Inapplicable`."""
        changes = list(self._expert.update(gaps, now))
        if self._cast.llm("knowledge-updater"):
            notes = notes_by_model(self.scene, gaps, now, f"version {now.version}")
            if notes is not None:
                changes = [*notes, *(change for change in changes if change.kind != "noted")]
        for (_, technique), found in self._inapplicable.items():
            name = known_state(now, found)
            if name is not None and technique in now.entries.get(name, {}):
                changes.append(Observed(state=name, technique=technique, result="Inapplicable"))
        self._inapplicable.clear()
        return changes

    # Verifying softly

    def review(self, candidate: Candidate) -> Review:
        """A last check of a candidate that the judge found correct, by the model or by rules: it may flag or
        reject it."""
        if self._cast.llm("soft-verifier"):
            return review_by_model(self.scene, candidate)
        return review_by_rules(self.scene, candidate)


def _families(attempt: Attempt) -> Mapping[str, str | None]:
    """The kernels of a candidate by name with their computation families; None where unknown."""
    if isinstance(attempt.form, Form):
        return {kernel.name: kernel.family for kernel in attempt.form.kernels}
    return {name: attempt.form.families.get(name) for name in kernel_names(attempt.candidate.source)}
