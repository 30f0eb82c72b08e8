"""Postpones the verdict on a candidate if its errors at a large size exceed the bound in an output of few
elements, because that may be chance. Values of the same kind are then drawn again, and the errors of all
draws together decide."""

from dataclasses import dataclass

from kernelblaster.judge.case import Case
from kernelblaster.judge.compare_outputs import OutputComparer
from kernelblaster.judge.samples import OutputSample, doubtful, share

MOST_DRAWS = 21  # as many as in verification


@dataclass
class Doubt:
    """An undecided comparison: with values as `case` says, errors at a large size exceeded their bound in an
    output of few elements, where that may be chance. `draws` has for each draw of such values the errors of
    every output of the task; the caller appends further draws. `comparer` decides."""

    case: Case
    comparer: OutputComparer
    draws: list[list[OutputSample]]

    def settled(self) -> bool:
        """Decides, from the errors of all draws together, whether each output is right. Returns False if more
        draws are needed, True if all outputs are right. Raises Stop (Incorrect) if one is wrong."""
        outputs = [self._pooled(position) for position in range(len(self.draws[0]))]
        if len(self.draws) < MOST_DRAWS and any(map(doubtful, outputs)):
            return False
        for samples in outputs:
            self.comparer.judge(self.case, samples)
        return True

    def _pooled(self, position: int) -> list[OutputSample]:
        """All errors of one output. The first sample, which says how lenient their bound is, is the one with
        the most lenience."""
        samples = [draw[position] for draw in self.draws]
        return sorted(samples, key=lambda one: (one.excused, -one.lenience, -one.terms))


def above_bound(sample: OutputSample) -> bool:
    """True if the errors of a sample exceed their bound, but the output has so few elements that this may be
    chance; further draws of values are then to decide."""
    return not sample.excused and sample.few and share([sample]) > 1
