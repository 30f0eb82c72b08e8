"""A user's own source as a form for the expert policy, in place of a plan."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from kernelblaster.tasks.cuda_source import CudaSource, Edit


@dataclass(frozen=True)
class OwnKernel:
    """A kernel by its name. What it computes is not known, so it has no family."""

    name: str
    family: None = None


@dataclass(frozen=True)
class OwnSource:
    """Sources with equal text are equal. `rewritten` names the kernels that were rewritten on the way to it,
    in order."""

    text: str
    rewritten: tuple[str, ...] = field(default=(), compare=False)

    @cached_property
    def tree(self) -> CudaSource:
        return CudaSource(self.text)

    @cached_property
    def kernels(self) -> tuple[OwnKernel, ...]:
        """The kernels that are launched."""
        launched = {launch.kernel for launch in self.tree.launches}
        return tuple(OwnKernel(kernel.name) for kernel in self.tree.kernels if kernel.name in launched)

    def edited(self, edits: Sequence[Edit]) -> "OwnSource":
        return replace(self, text=self.tree.edited(edits))

    def changed_in(self, later: "OwnSource") -> frozenset[str]:
        """The kernels that were rewritten between this and a later one."""
        return frozenset(later.rewritten[len(self.rewritten) :])
