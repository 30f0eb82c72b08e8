"""Decides which techniques are offered to the search for a kernel. They come from the knowledge base, from
the rules of the built-in expert policy, and from the language model. The model is asked for more when fewer
than three techniques that are known to pay (PROVEN), and fewer than two of its own proposals (OPEN), are left
to try."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from kernelblaster.policies.llm.history import path_steps
from kernelblaster.policies.llm.knowledge_view import pays
from kernelblaster.policies.llm.proposer import Inquiry, Proposed, propose
from kernelblaster.policies.llm.roles import Cast
from kernelblaster.policies.llm.scene import Scene
from kernelblaster.records import Optimization, Step, Target
from kernelblaster.records.recipe import techniques_of

PROVEN = 3  # techniques that are known to pay and are open, from which on the model is not asked for more
OPEN = 2  # proposals of this run that are still to be tried here, from which on it is not asked either
KNOWN_OFFERED = 6  # techniques of the knowledge base that are offered for a kernel without a plan


@dataclass(frozen=True)
class _Proposal:
    """A technique that the model proposed in this run for the kernel named `kernel`, which computes something
    of `family` (None: unknown)."""

    optimization: Optimization
    kernel: str
    family: str | None

    def fits(self, target: Target) -> bool:
        """Whether the technique may be tried on the kernel `target`: it was proposed for this kernel, or for
        one of the same family."""
        return self.kernel == target.kernel or (self.family is not None and self.family == target.family)


class Offers:
    """The techniques that the search is offered in one run; `cast` says which roles the model plays. A
    technique that the model proposed stays on offer until it is tried, for later candidates and other
    performance states too. One that the model found inapplicable is left out only for the code that it was
    shown."""

    def __init__(self, cast: Cast) -> None:
        self._cast = cast
        self._mine: dict[str, _Proposal] = {}

    def techniques(self, scene: Scene, inquiry: Inquiry, can: Sequence[str]) -> list[str]:
        """Returns the names of techniques to try on the kernel of `inquiry`. `can` are the names of
        techniques that the rules of the built-in expert policy can apply without the model. If the model does
        not write code (the lowerer's role), the result is exactly `can`. Otherwise it has the model's
        proposals, new and earlier ones of this run, then `can`, then up to six other techniques from the
        knowledge base. Techniques that the model now calls inapplicable are left out, unless the rules can
        apply them.

        If the model is the proposer, it is asked for further techniques in two cases: when fewer than three
        techniques that are known to pay (PROVEN) and fewer than two of its earlier proposals (OPEN) are left
        to try; and each time that all techniques have been used up (`inquiry.again` says how often). New
        proposals are added to the knowledge base. `scene` is the context for the prompt.
        """
        steps, target, code = scene.session.log.steps, inquiry.target, inquiry.candidate.code
        applied = _applied(path_steps(steps, code))
        tried = {step.technique for step in steps if step.parent == code}
        known = scene.techniques(target.state, applied, target.family)
        usable = [one for one in known if one.technique not in {*applied, *tried}]
        mine = [name for name, one in self._mine.items() if one.fits(target) and name not in tried]
        carried = [name for name in mine if not set(techniques_of(name)) <= set(applied)]
        enough = len(carried) >= OPEN or sum(map(pays, usable)) >= PROVEN
        proposed = Proposed([])
        if self._cast.llm("proposer") and (inquiry.again or not enough):
            proposed = propose(scene, replace(inquiry, applied=applied, open=tuple(carried)))
        lowers = self._cast.llm("lowerer")
        new = [one for one in proposed.new if lowers or one.technique in can]
        self._mine |= {one.technique: _Proposal(one, target.kernel, target.family) for one in new}
        offered = [*new, *(self._mine[name].optimization for name in carried)]
        if offered:
            scene.session.memory.offer(target.state, offered, scene.session.judging.evaluations.get(code))
        if not lowers:
            return list(can)
        first = dict.fromkeys((*(one.technique for one in offered), *can))
        others = [one.technique for one in usable if one.technique not in first]
        names = [*first, *others[:KNOWN_OFFERED]]
        return [name for name in names if name in can or name not in proposed.inapplicable]

    def described(self) -> dict[str, str]:
        """Returns the model's descriptions of the techniques that it proposed in this run, as a dictionary
        from the name of a technique to its description."""
        return {name: one.optimization.description for name, one in self._mine.items()}


def _applied(path: Iterable[Step]) -> tuple[str, ...]:
    """The names of the techniques that the steps in `path` applied, in the order of application; `path` has
    the last step first."""
    return tuple(name for step in reversed(list(path)) for name in techniques_of(step.technique))
