"""A user's own CUDA source as the expert policy handles it: the text, its syntax tree, and which kernels have
been rewritten."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from kernelblaster.tasks.cuda_source import CudaSource, Edit


@dataclass(frozen=True)
class OwnKernel:
    """A kernel of a user's source by its name. What it computes is not known, so its family (kind of
    computation, such as "row_reduction") is None."""

    name: str
    family: None = None


@dataclass(frozen=True)
class OwnSource:
    """A user's CUDA source, perhaps rewritten: what the expert policy keeps of a candidate made from it
    (`Attempt.form`). Two are equal if their texts are. `rewritten` are the names of the kernels rewritten
    since the user's original, one for each rewrite, in order."""

    text: str
    rewritten: tuple[str, ...] = field(default=(), compare=False)

    @cached_property
    def tree(self) -> CudaSource:
        """The syntax tree of the source, parsed once."""
        return CudaSource(self.text)

    @cached_property
    def kernels(self) -> tuple[OwnKernel, ...]:
        """The kernels that the source defines and launches, in the order of their definitions."""
        launched = {launch.kernel for launch in self.tree.launches}
        return tuple(OwnKernel(kernel.name) for kernel in self.tree.kernels if kernel.name in launched)

    def edited(self, edits: Sequence[Edit]) -> "OwnSource":
        """The source after these edits (begin byte, end byte, new text), which must not overlap."""
        return replace(self, text=self.tree.edited(edits))

    def changed_in(self, later: "OwnSource") -> frozenset[str]:
        """The names of the kernels that were rewritten between this source and `later`, which was made from
        it."""
        return frozenset(later.rewritten[len(self.rewritten) :])
