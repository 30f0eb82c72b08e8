"""A verification case: a call of a candidate on one kind of values at one workload (a choice of all sizes),
and how strictly outputs are compared there."""

from dataclasses import dataclass
from typing import Any

from kernelblaster.records import Tensor, Workload
from kernelblaster.records.signature import DTYPE_BYTES
from kernelblaster.tasks.distributions import PLANTED, Distribution

# Long sums in which few terms are not zero, or that are exact in any order: bounds as for short sums.
FEW_TERMS: tuple[Distribution, ...] = ("sparse", "sparse-low", "grid")
# Kinds that repeat one value: every term of a sequential sum then rounds in the same direction.
REPEATING: tuple[Distribution, ...] = ("zeros", "equal", "zero-rows", "padded", "one-hot", "mixed", "spiky")
# Kinds whose bound is that of the file's own values. Landmarks are none: in a softmax, hundreds of small
# terms then vanish beside a few large ones, each below half a unit in the last place, in the same direction.
STRICT: tuple[Distribution, ...] = ("written", "scaled", "large", "shifted", "octaves", "low-octaves")
LENIENCE, REPEATED = 3.0, 8  # factor on bounds for rearranged values; repeated ones: extent / REPEATED
# Level ones: extent / SEQUENTIAL, as a sum from left to right costs a rounding for four terms.
SEQUENTIAL = 1536
# Sorted ones: their partial sums are far larger than the result, and so are the roundings of a sum from left
# to right, of which many have one direction. At least SORTED, and extent / LONG_SORTED. But not for 16-bit
# outputs: their sums are in float32, which is far more precise than what they are rounded to.
SORTED, LONG_SORTED = 16.0, 1024
# Steps: 1 up to this extent, then in proportion to it. Nearly all terms of a longer line have one sign and
# size, so that a sum from left to right costs more roundings than any bound allows (MOST in precision.py).
LONG_STEP = 1 << 15


@dataclass(frozen=True)
class Case:
    """One verification case: a kind of values at one workload (a choice of all sizes). The candidate is
    called `runs` times on the same values. `distribution` is the kind of values of all inputs; if `inputs` is
    set, it has one kind for each input tensor instead.

    `moved`: parameters get random values near the module's own. `focus` is the name of an input or parameter:
    it alone is changed, and all others keep the task file's own values. `scalars` replace the scalar
    arguments of the task's file. `shuffled` names integer parameters whose elements are permuted. `twins`:
    inputs of equal shape hold equal values.

    Two fields expose candidates that keep results from one call to the next. `stays`: all cases with `stays`
    put their tensors at the same addresses, with other values in them; a candidate that recognizes a tensor
    by its address returns old results. `patched`: after a first call, a small part of every tensor that is
    read is changed in place, and the second call is judged; a candidate that compares only a few elements
    overlooks the change.
    """

    workload: Workload
    distribution: Distribution
    runs: int = 1
    moved: bool = True
    focus: str | None = None
    stays: bool = False
    inputs: tuple[Distribution, ...] | None = None
    scalars: tuple[Any, ...] | None = None
    shuffled: frozenset[str] = frozenset()
    twins: bool = False
    patched: bool = False

    @property
    def title(self) -> str:
        """A name for this verification case in words, its kind of values and what else is special about it
        ("shifted, scalars 0.5"), for reports and for the evidence of a failure."""
        if self.focus:
            return f"{self.distribution}, {self.focus} moved"
        if self.scalars is not None:
            return f"{self.distribution}, scalars {', '.join(f'{s:.6g}' for s in self.scalars)}"
        if self.shuffled:
            return f"{self.distribution}, {', '.join(sorted(self.shuffled))} shuffled"
        if self.twins:
            return f"{self.distribution}, inputs equal"
        if self.patched:
            return f"{self.distribution}, a part changed after a first call"
        return self.distribution

    @property
    def planted(self) -> bool:
        """True if this verification case sets some input elements to NaN or infinity."""
        return self.distribution in PLANTED

    def lenience(self, tensor: Tensor) -> float:
        """Returns the factor by which error bounds of the output `tensor` are multiplied in this verification
        case. It is 1 for values like the task file's own, and for those scaled or shifted. For most other
        kinds (repeated, sorted, mostly zero) it is at least 3: these cases are to find gross errors, and a
        correct kernel that sums in another order must pass. For kinds in which roundings add up over a long
        sum, it grows with the workload's largest extent. The kind "step" has 1 up to an extent of 32,768
        (LONG_STEP), and grows from there."""
        if self.distribution in STRICT:
            return 1.0
        if self.distribution in (*REPEATING, *FEW_TERMS):
            return max(LENIENCE, self._longest / REPEATED)
        if self.distribution == "sorted" and DTYPE_BYTES[tensor.dtype] >= 4:
            return max(SORTED, self._longest / LONG_SORTED)
        if self.distribution == "step":
            return max(1.0, self._longest / LONG_STEP)
        return max(LENIENCE, self._longest / SEQUENTIAL) if self.distribution == "level" else LENIENCE

    @property
    def _longest(self) -> int:
        return max(self.workload.sizes.values(), default=1)

    def arrangement(self, position: int) -> Distribution:
        """The kind of values that input tensor number `position` (from 0) is filled with in this verification
        case."""
        return self.inputs[position] if self.inputs is not None else self.distribution
