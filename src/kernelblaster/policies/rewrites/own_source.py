"""A user's own CUDA source as the built-in expert policy handles it: the text, its syntax tree, and which
kernels have been rewritten."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from kernelblaster.tasks.cuda_source import CudaSource, Edit


@dataclass(frozen=True)
class OwnKernel:
    """A kernel of a user's source, known by its name alone. Its `family` (kind of computation, such as
    "row_reduction") is None, since what it computes is not known."""

    name: str
    family: None = None


@dataclass(frozen=True)
class OwnSource:
    """A user's CUDA source, perhaps rewritten, in the form in which the built-in expert policy keeps it with
    a candidate (`Attempt.form`). `rewritten` has the names of the kernels that were rewritten since the
    user's original, in order, once for each rewrite. Two sources are equal if their texts are."""

    text: str
    rewritten: tuple[str, ...] = field(default=(), compare=False)

    @cached_property
    def tree(self) -> CudaSource:
        """The source's syntax tree; it is parsed at the first use."""
        return CudaSource(self.text)

    @cached_property
    def kernels(self) -> tuple[OwnKernel, ...]:
        """The kernels that the source defines and launches, in the order of their definitions."""
        launched = {launch.kernel for launch in self.tree.launches}
        return tuple(OwnKernel(kernel.name) for kernel in self.tree.kernels if kernel.name in launched)

    def edited(self, edits: Sequence[Edit]) -> "OwnSource":
        """Returns the source with these edits made, each (begin byte, end byte, new text). They must not
        overlap."""
        return replace(self, text=self.tree.edited(edits))

    def changed_in(self, later: "OwnSource") -> frozenset[str]:
        """Returns the names of the kernels that were rewritten between this source and `later`, which must
        have been made from this one."""
        return frozenset(later.rewritten[len(self.rewritten) :])
