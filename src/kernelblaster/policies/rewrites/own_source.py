"""A user's own source as a form for the expert policy, in place of a plan."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from kernelblaster.tasks.cuda_source import CudaSource, Edit


@dataclass(frozen=True)
class OwnKernel:
    """A kernel of a user's source by its name. What it computes is not known, so its family is None."""

    name: str
    family: None = None


@dataclass(frozen=True)
class OwnSource:
    """A user's CUDA source as the `form` of an attempt. Equality is by text. `rewritten` are the names of the
    kernels rewritten on the way to it, one for each rewrite, in order."""

    text: str
    rewritten: tuple[str, ...] = field(default=(), compare=False)

    @cached_property
    def tree(self) -> CudaSource:
        """The parsed source."""
        return CudaSource(self.text)

    @cached_property
    def kernels(self) -> tuple[OwnKernel, ...]:
        """The kernels that are launched."""
        launched = {launch.kernel for launch in self.tree.launches}
        return tuple(OwnKernel(kernel.name) for kernel in self.tree.kernels if kernel.name in launched)

    def edited(self, edits: Sequence[Edit]) -> "OwnSource":
        """The source after these edits (begin byte, end byte, new text), which must not overlap."""
        return replace(self, text=self.tree.edited(edits))

    def changed_in(self, later: "OwnSource") -> frozenset[str]:
        """The kernels that were rewritten between this and a later one."""
        return frozenset(later.rewritten[len(self.rewritten) :])
