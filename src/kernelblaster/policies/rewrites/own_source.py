"""A user's own source as the expert policy's form: what a plan is for the expert's own kernels."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from kernelblaster.tasks.cuda_source import CudaSource, Edit


@dataclass(frozen=True)
class OwnKernel:
    """A kernel by its name, with the text that its behaviour follows from: its own, and all that is
    outside of kernels. What it computes is not known, so it has no family."""

    name: str
    text: str
    family: None = None


@dataclass(frozen=True)
class OwnSource:
    """Two with the same text are the same."""

    text: str

    @cached_property
    def tree(self) -> CudaSource:
        return CudaSource(self.text)

    @cached_property
    def kernels(self) -> tuple[OwnKernel, ...]:
        """Those that are launched."""
        launched = {launch.kernel for launch in self.tree.launches}
        found = self.tree.kernels
        spans = [(function.node.start_byte, function.node.end_byte) for function in found]
        outside = "".join(chr(b) for at, b in enumerate(self.tree.bytes) if not _within(at, spans))
        return tuple(
            OwnKernel(f.name, self.tree.original(f.node) + outside) for f in found if f.name in launched
        )

    def edited(self, edits: Sequence[Edit]) -> "OwnSource":
        return OwnSource(self.tree.edited(edits))


def _within(at: int, spans: Sequence[tuple[int, int]]) -> bool:
    return any(begin <= at < end for begin, end in spans)
