"""`MixedPolicy`: the policy in which a language model plays some of the roles (proposing, writing code, ...)
and the rules of the built-in expert policy play the others."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kernelblaster.errors import KernelBlasterError
from kernelblaster.knowledge.content import Content
from kernelblaster.knowledge.events import Change
from kernelblaster.models.request import Model
from kernelblaster.policies.expert.policy import ExpertPolicy, Form
from kernelblaster.policies.expert.states import extract_states, possible_gain
from kernelblaster.policies.llm.asker import Asker
from kernelblaster.policies.llm.digest import kernel_name
from kernelblaster.policies.llm.families import family_of
from kernelblaster.policies.llm.feedback import feedback
from kernelblaster.policies.llm.initial_writer import NoFirstCandidate, write_initial
from kernelblaster.policies.llm.learning import MixedLearning, inapplicable
from kernelblaster.policies.llm.lowerer import Lowering, lower, mend_lowering
from kernelblaster.policies.llm.offers import Offers
from kernelblaster.policies.llm.proposer import Inquiry
from kernelblaster.policies.llm.rewriting import Rewritten
from kernelblaster.policies.llm.roles import Cast
from kernelblaster.policies.llm.scene import PromptDetail, Scene
from kernelblaster.policies.llm.soft_verifier import Review, review_by_model, review_by_rules
from kernelblaster.policies.llm.source import ENTRY, kernel_names
from kernelblaster.policies.llm.state_extractor import states_by_model
from kernelblaster.policies.llm.state_matcher import match_by_model
from kernelblaster.policies.policy import Attempt, Gap, PolicyEvaluation
from kernelblaster.policies.rewrites.own_source import OwnSource
from kernelblaster.records import Candidate, Evaluation, Profile, State, Task
from kernelblaster.records.profile import Depth
from kernelblaster.records.recipe import is_recipe, techniques_of
from kernelblaster.records.target import Target
from kernelblaster.sessions.session import Session
from kernelblaster.store.replay import Sample

DECLINED = 3  # techniques that the model may find impossible on a kernel before it is asked for others


@dataclass(frozen=True)
class Written:
    """What the policy keeps of a candidate that a model wrote: the `form` of its `Attempt`. `families` maps
    the names of kernels to their kinds of computation (such as "row_reduction"), None where unknown; `family`
    is that of all kernels that are not listed. `lowering` is the request that the model answered with this
    candidate; it is used again if the candidate has to be corrected. It is None for a first candidate."""

    families: Mapping[str, str | None] = field(default_factory=dict)
    lowering: Lowering | None = None
    family: str | None = None


@dataclass
class _Seen:
    """What is kept of a candidate for later prompts: its profile, and the least memory traffic of the task in
    bytes."""

    profile: Profile
    floor_bytes: int


class MixedPolicy:
    """The policy in which the language model `model` plays the roles that `cast` gives it, in the search
    `session`. The rules of the built-in policy (`expert`) play the others, and step in where the model has no
    usable answer. The `form` of an attempt is the expert's own (`Form`) as long as only the expert has
    changed the candidate. Once the model has, it is `Written`, and only the model can apply further
    techniques. `detail` says how much prompts show of profiles: a `digest`, the `whole` profile, or only
    `cycles` (durations)."""

    depth: Depth = "usual"  # prompts contain the profiler's advice

    def __init__(
        self,
        expert: ExpertPolicy,
        cast: Cast,
        model: Model,
        session: Session,
        *,
        detail: PromptDetail = "digest",
    ) -> None:
        self._expert = expert
        self._cast = cast
        self._model = model
        self._session = session
        self._detail = detail
        self._scene: Scene | None = None
        self._offers = Offers(cast)
        self._learning = MixedLearning(expert, cast)
        self._seen: dict[str, _Seen] = {}
        self._inapplicable: dict[tuple[str, str], State] = {}
        self._declined: Counter[tuple[str, str]] = Counter()

    @property
    def scene(self) -> Scene:
        """The context for prompts about the current task: the task, the GPU, the search's history and
        knowledge base, and the object by which the model is asked. `begin` or `initial` must have been called
        before; otherwise AssertionError is raised."""
        assert self._scene is not None, "begin() or initial() comes first"
        return self._scene

    def begin(self, task: Task) -> Scene:
        """Sets the task that later questions to the model are about. Returns the context for prompts about
        it: the task, the GPU, the search's history and knowledge base, and the object by which the model is
        asked. Questions and answers are recorded in the log of the search. The method `initial` calls `begin`
        itself; only a strategy that never calls `initial` must do so."""
        asker = Asker(self._model, self._session.log.once, task.name, self._session.steering)
        self._scene = Scene(task, self._session, asker, self._detail)
        return self._scene

    # Writing

    def initial(self, task: Task) -> Attempt:
        """Returns the first candidate of a search. A CUDA file that has a launch function is itself the first
        candidate. For other tasks it is made of kernels of the built-in expert policy, or written by the
        model if the expert has none for them. If the policy's cast (who plays which role) makes the model the
        initial writer, the model is asked first, and the expert's kernels are used if it fails. Raises
        `NoFirstCandidate` if both fail."""
        self.begin(task)
        if task.kind == "cuda" and ENTRY in task.source:
            return Attempt(Candidate(source=task.source, origin="task"), OwnSource(task.source))
        if not self._cast.llm("initial-writer"):
            try:
                return self._expert.initial(task)
            except KernelBlasterError:
                pass  # it has no kernels for this task: the model writes them
        try:
            return Attempt(write_initial(self.scene), Written(family=family_of(task)))
        except NoFirstCandidate as failed:
            if not self._cast.llm("initial-writer"):
                raise  # the expert was asked before
            try:
                return self._expert.initial(task)
            except KernelBlasterError:
                raise failed from None

    def moves(self, attempt: Attempt, technique: str, target: Target) -> Iterator[Attempt]:
        """Yields the candidates that one application of `technique` to the kernel `target` of the candidate
        `attempt` can produce: first the model's, as many as the search's settings want (`samples`), then
        those of the built-in expert policy. If the technique is a recipe (several techniques) and the kernels
        are still the expert's own, the expert applies it, and the model only if the expert cannot."""
        planned = isinstance(attempt.form, Form)
        if planned and is_recipe(technique):
            known = list(self._expert.moves(attempt, technique, target))
            yield from known
            if known:
                return
        if self._cast.llm("lowerer"):
            yield from self._samples(attempt, technique, target)
        if planned and not is_recipe(technique):
            yield from self._expert.moves(attempt, technique, target)

    def retry(
        self, parent: Attempt, technique: str, failed: Attempt, evaluation: Evaluation
    ) -> Attempt | None:
        """Returns a corrected version of `failed`, the candidate in which `technique` was applied to `parent`
        and which got this evaluation. If the model wrote it, the model corrects it with the judge's feedback;
        else the built-in expert policy is asked for one. None if there is no corrected version."""
        if not isinstance(failed.form, Written) or failed.form.lowering is None:
            return self._expert.retry(parent, technique, failed, evaluation)
        said = feedback(evaluation, failed.candidate.source)
        lowering = failed.form.lowering
        return self._written(lowering, mend_lowering(self.scene, lowering, failed.candidate, said), parent)

    def _samples(self, attempt: Attempt, technique: str, target: Target) -> Iterator[Attempt]:
        """Yields the model's candidates for `technique` on the kernel `target`; each is another answer to the
        same question. Yields nothing if the model declines or gives no usable answer. Does not ask, and
        yields nothing, if the model has declined DECLINED techniques on this kernel since it was last asked
        for proposals. A declined technique is remembered as inapplicable in the state."""
        kernel_of = (attempt.candidate.code, target.kernel)
        if self._declined[kernel_of] >= DECLINED:
            return
        seen = self._seen[attempt.candidate.code]
        for sample in range(self._session.search.samples):
            lowering = Lowering(attempt.candidate, technique, target, seen.profile, seen.floor_bytes, sample)
            rewritten = lower(self.scene, lowering, self._offers.described())
            if rewritten.declined:
                self._declined[kernel_of] += 1
                self._inapplicable[target.state.name, technique] = target.state
                return
            written = self._written(lowering, rewritten, attempt)
            if written is not None:
                yield written

    def _written(self, lowering: Lowering, rewritten: Rewritten, parent: Attempt) -> Attempt | None:
        """The source that the model wrote for the request `lowering`, as a child of `parent`, with those
        values of its tunable constants that are fastest by the emulator's model of the GPU; its summary is
        kept for later prompts. None if there is no source or no technique was applied. New kernels get the
        family of the kernel that was to be changed."""
        applied = tuple(t for t in techniques_of(lowering.technique) if t not in rewritten.not_applied)
        if rewritten.source is None or not applied:
            return None
        origin = f"llm: {lowering.technique}"
        written = Candidate(source=rewritten.source, origin=origin, parent=parent.candidate.digest)
        candidate = self._session.judging.tuned(written, self._session.search.swept)
        self.scene.summaries[candidate.code] = rewritten.summary
        before, family = _families(parent), lowering.target.family
        families = {name: before.get(name, family) for name in kernel_names(rewritten.source)}
        form = Written(families, lowering, family)
        return Attempt(candidate, form, frozenset({lowering.target.kernel}), applied)

    # Naming states, proposing

    def targets(self, attempt: Attempt, profile: Profile, floor_bytes: int) -> Sequence[Target]:
        """Returns the kernels of the profiled candidate `attempt` that can be optimized, the one with the
        largest possible gain first, each with its performance state. States are named by the model or by the
        rules of the built-in expert policy, as the policy's cast (who plays which role) says, from as much of
        the profile as the policy may use (its field `detail`). The same part of the profile is kept for later
        prompts on this candidate, so `targets` must be called before `moves` and `proposals`. `floor_bytes`
        is the least memory traffic of the task, in bytes."""
        profile = self.scene.visible(profile)
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

    def proposals(self, attempt: Attempt, target: Target, again: int = 0) -> Sequence[str]:
        """Returns the names of techniques to try on the kernel `target` of the candidate `attempt`: those
        that the built-in expert policy can apply, those of the knowledge base, and those that the model
        proposes. `again` counts how often the search has used up all techniques offered for this kernel; if
        it is not 0, the model is asked for more."""
        can = list(self._expert.proposals(attempt, target)) if isinstance(attempt.form, Form) else []
        seen = self._seen[attempt.candidate.code]
        if again:
            self._declined.pop((attempt.candidate.code, target.kernel), None)
        inquiry = Inquiry(attempt.candidate, target, seen.profile, seen.floor_bytes, again=again)
        return self._offers.techniques(self.scene, inquiry, can)

    # Learning

    def summary(self, attempt: Attempt) -> str:
        return self.scene.summaries.get(attempt.candidate.code, "")

    def evaluate(
        self, fresh: Sequence[Sample], earlier: Sequence[Sample], theta: Content, architecture: str
    ) -> PolicyEvaluation:
        seen, before = ([self._visible(sample) for sample in some] for some in (fresh, earlier))
        return self._learning.evaluate(self.scene, seen, before, theta, architecture)

    def explain(self, evaluation: PolicyEvaluation, now: Content) -> Sequence[Gap]:
        return self._learning.explain(self.scene, evaluation, now)

    def update(self, evaluation: PolicyEvaluation, gaps: Sequence[Gap], now: Content) -> Sequence[Change]:
        """Returns the changes to make to the knowledge base `now`: what the model and the rules of the
        built-in expert policy learned from `evaluation` and `gaps`. Techniques that the model declined since
        the last update are added as failed attempts of the kind `Inapplicable`."""
        changes = self._learning.update(self.scene, evaluation, gaps, now)
        changes += inapplicable(self._inapplicable, now)
        self._inapplicable.clear()
        return changes

    def _visible(self, sample: Sample) -> Sample:
        """The sample (an attempt with the evaluations before and after it) with its two profiles reduced to
        what the policy's `detail` lets it see."""
        parent, child = (
            one
            if one.profile is None
            else one.model_copy(update={"profile": self.scene.visible(one.profile)})
            for one in (sample.parent, sample.child)
        )
        return replace(sample, parent=parent, child=child)

    # Verifying softly

    def review(self, candidate: Candidate) -> Review:
        """Reviews, at the end of a search, a candidate that the judge found correct, and returns the verdict
        (nothing found, flagged or rejected) with the findings. The model makes the review if it plays the
        soft verifier, else fixed rules do."""
        if self._cast.llm("soft-verifier"):
            return review_by_model(self.scene, candidate)
        return review_by_rules(self.scene, candidate)


def _families(attempt: Attempt) -> Mapping[str, str | None]:
    """The kinds of computation (such as "row_reduction") of a candidate's kernels, by the kernel's name; None
    where unknown."""
    form = attempt.form
    if isinstance(form, Form):
        return {kernel.name: kernel.family for kernel in form.kernels}
    return {name: form.families.get(name, form.family) for name in kernel_names(attempt.candidate.source)}
