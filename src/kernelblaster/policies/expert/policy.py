"""The built-in policy, without a language model: it captures a task's PyTorch graph, plans kernels for it,
rewrites the plan by techniques, and emits it as CUDA. For a task that is a user's own CUDA source there is no
plan; techniques with the same names rewrite its text instead."""

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from itertools import count, dropwhile, islice
from typing import NamedTuple

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.errors import BadTask
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.graph import UncoveredOperators
from kernelblaster.policies.expert.learning import ExpertLearning
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.states import extract_states, possible_gain
from kernelblaster.policies.expert.technique_order import in_order
from kernelblaster.policies.expert.techniques import Technique, load_techniques
from kernelblaster.policies.policy import Attempt
from kernelblaster.policies.rewrites.own_source import OwnSource
from kernelblaster.policies.rewrites.techniques import Technique as Rewriting
from kernelblaster.policies.rewrites.techniques import load_rewrites
from kernelblaster.records import Candidate, Evaluation, Profile, Task
from kernelblaster.records.kernel_name import source_name
from kernelblaster.records.recipe import JOINED, Recipe
from kernelblaster.records.target import Target

ALWAYS = (
    "algebraic_simplification",
    "kernel_fusion",
)  # applied in every recipe, whether it names them or not
TRUNCATED = 3  # plans of a recipe, the whole one included


Form = Plan | OwnSource


class _Rewrite(NamedTuple):
    """What a technique made of a form (a plan, or a user's source): the new form, the names of the kernels
    of the old one that it changed, and the techniques that were applied."""

    form: Form
    changed: frozenset[str]
    applied: tuple[str, ...]


class ExpertPolicy(ExpertLearning):
    """The built-in policy, which writes candidates by fixed rules, without a language model (an
    implementation of `Policy`). It applies only techniques whose instructions the GPU `gpu` has or, if
    `emulated`, the PTX machine (an emulator) that stands for that GPU. If `gpu` is None, it applies all
    techniques. For each candidate it keeps a form that it can change further (`Attempt.form`): a plan or, for
    a task that is a CUDA source, that source. It remembers the candidates that it wrote for a task, because
    searches ask for the same ones again."""

    def __init__(self, gpu: GpuSpec | None = None, emulated: bool = False) -> None:
        self._gpu = gpu
        self._emulated = emulated
        self._written: dict[tuple[str, str, frozenset[str]], _Written] = {}
        self._proposed: dict[tuple[str, str], list[str]] = {}

    @cached_property
    def _plan_techniques(self) -> dict[str, Technique]:
        return load_techniques(self._gpu, self._emulated)

    @cached_property
    def _source_techniques(self) -> dict[str, Rewriting]:
        return load_rewrites()

    def _applied(self, form: Form, technique: str) -> Iterator[Form]:
        """Yields the forms (plans or sources) that one technique makes of a form; none if it does not
        apply."""
        if isinstance(form, OwnSource):
            yield from self._source_techniques[technique](form)
        else:
            yield from self._plan_techniques[technique](form)

    def _techniques(self, form: Form) -> Collection[str]:
        return self._source_techniques if isinstance(form, OwnSource) else self._plan_techniques

    def initial(self, task: Task) -> Attempt:
        self._written.clear()
        self._proposed.clear()
        if task.kind == "cuda":
            return Attempt(Candidate(source=task.source, origin="task"), OwnSource(task.source))
        try:
            plan = initial_plan(capture(task))
        except UncoveredOperators:
            _check_fit(task)  # says more than the names of the operators that draw random numbers
            raise
        return Attempt(Candidate(source=emit(plan), origin="expert: initial"), plan)

    def targets(self, attempt: Attempt, profile: Profile, floor_bytes: int) -> Sequence[Target]:
        """Returns the candidate's kernels as targets of optimization, each with its share of the time and its
        performance state, first the kernel that could save the largest part of the call's time. `attempt` is
        the candidate, `profile` its profile. Kernels in the profile that are not the candidate's own, such as
        copies by the driver, are left out. `floor_bytes` is the least memory traffic of the task, in
        bytes."""
        families = {kernel.name: kernel.family for kernel in attempt.form.kernels}
        found = sorted(extract_states(profile, floor_bytes), key=possible_gain, reverse=True)
        named = [(source_name(kernel.kernel), kernel) for kernel in found]
        return [Target(name, k.share, k.state, families[name]) for name, k in named if name in families]

    def proposals(self, attempt: Attempt, target: Target, again: int = 0) -> Sequence[str]:
        key = (attempt.candidate.code, target.kernel)
        if key not in self._proposed:
            kernels, names = frozenset({target.kernel}), sorted(self._techniques(attempt.form))
            found = {n: next(self._rewrites(attempt.form, n, kernels), None) for n in names}
            self._proposed[key] = [name for name, rewrite in found.items() if rewrite is not None]
        return self._proposed[key]

    def moves(self, attempt: Attempt, technique: str, target: Target) -> Iterator[Attempt]:
        return self._moves(attempt, technique, frozenset({target.kernel}))

    def whole(self, attempt: Attempt, technique: str) -> Iterator[Attempt]:
        """Yields the candidates that one application of `technique` (or of a recipe) to the candidate
        `attempt` can give, whichever kernels it changes; the most promising first. In contrast, the method
        `moves` yields only candidates in which one given kernel has changed."""
        return self._moves(attempt, technique, frozenset(kernel.name for kernel in attempt.form.kernels))

    def families(self, attempt: Attempt) -> list[str]:
        """Returns the families (kinds of computation, such as "pointwise") of the kernels of the candidate
        `attempt`, each once."""
        return list(dict.fromkeys(kernel.family for kernel in attempt.form.kernels))

    def retry(
        self, parent: Attempt, technique: str, failed: Attempt, evaluation: Evaluation
    ) -> Attempt | None:
        """Returns the next candidate after `failed` that `technique` can make from `parent` on the same
        kernels; None if there is no further one. `evaluation`, the verdict on `failed`, is not used."""
        moves = self._moves(parent, technique, failed.changed)
        later = dropwhile(lambda move: move.candidate.code != failed.candidate.code, moves)
        return next(islice(later, 1, None), None)

    def _moves(self, attempt: Attempt, technique: str, kernels: frozenset[str]) -> Iterator[Attempt]:
        key = (attempt.candidate.code, technique, kernels)
        if key not in self._written:
            self._written[key] = _Written(self._write(attempt, technique, kernels))
        return iter(self._written[key])

    def _write(self, attempt: Attempt, technique: str, kernels: frozenset[str]) -> Iterator[Attempt]:
        seen = {attempt.candidate.source}
        for form, changed, applied in self._rewrites(attempt.form, technique, kernels):
            source = form.text if isinstance(form, OwnSource) else emit(form)
            if source not in seen:
                seen.add(source)
                origin, parent = f"expert: {JOINED.join(applied)}", attempt.candidate.digest
                candidate = Candidate(source=source, origin=origin, parent=parent)
                yield Attempt(candidate, form, changed, applied)

    def _rewrites(self, form: Form, technique: str, kernels: frozenset[str]) -> Iterator[_Rewrite]:
        """Yields the forms that a technique makes and that change at least one of `kernels`, in the
        technique's order."""
        for rewritten, applied in self._rewritten(form, technique):
            changed = _changed(form, rewritten)
            if changed & kernels:
                yield _Rewrite(rewritten, changed, applied)

    def _rewritten(self, form: Form, technique: str) -> Iterator[tuple[Form, tuple[str, ...]]]:
        """Yields all forms that a technique makes, each with the techniques that were applied. For a recipe
        (several techniques in one step), each is applied in its first variant, or skipped where it does not
        apply; ALWAYS are applied first, whether the recipe names them or not. After the whole recipe come up
        to two forms without its last techniques, in case those fail."""
        if technique in self._techniques(form):
            for found in self._applied(form, technique):
                yield found, (technique,)
        elif (recipe := Recipe.parse(technique)) is not None:
            reached: list[tuple[Form, tuple[str, ...]]] = [(form, ())]
            for part in in_order({*ALWAYS, *recipe.techniques}):
                before, applied = reached[-1]
                further = next(self._rewritten(before, part), None)
                if further is not None:
                    reached.append((further[0], (*applied, part)))
            own = set(recipe.techniques)
            yield from (found for found in reached[: -1 - TRUNCATED : -1] if own.intersection(found[1]))


def _changed(form: Form, rewritten: Form) -> frozenset[str]:
    """The names of the kernels of `form` that `rewritten`, which was made from it, has changed."""
    if isinstance(form, OwnSource):
        assert isinstance(rewritten, OwnSource)
        return form.changed_in(rewritten)
    return frozenset(k.name for k in form.kernels if k not in rewritten.kernels)


class _Written:
    """The attempts of an iterator, which can be iterated repeatedly: each is written when it is first asked
    for, and then kept."""

    def __init__(self, source: Iterator[Attempt]) -> None:
        self._source = source
        self._known: list[Attempt] = []

    def __iter__(self) -> Iterator[Attempt]:
        for place in count():
            if place == len(self._known):
                more = next(self._source, None)
                if more is None:
                    return
                self._known.append(more)
            yield self._known[place]


def _check_fit(task: Task) -> None:
    """Raise BadTask if the task is unfit to be scored."""
    from kernelblaster.tasks.fitness import fitness_of

    fitness = fitness_of(task)
    if not fitness.fit:
        raise BadTask(f"{task.name}: unfit to be scored: {'; '.join(fitness.problems)}")
