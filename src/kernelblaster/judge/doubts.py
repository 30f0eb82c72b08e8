"""Kinds of values on which a large call was off by more than the bound, in so few numbers that this may be
chance. As in verification, values are then drawn again, and the errors of all draws together decide."""

from dataclasses import dataclass

from kernelblaster.judge.case import Case
from kernelblaster.judge.compare_outputs import OutputComparer
from kernelblaster.judge.samples import OutputSample, doubtful, share

MOST_DRAWS = 21  # as many as in verification


@dataclass
class Doubt:
    """Errors above their bound in too few numbers to decide, with values as `case` says. `draws` has for each
    draw of such values the errors of every output of the task; more of them are appended. `comparer`
    decides."""

    case: Case
    comparer: OutputComparer
    draws: list[list[OutputSample]]

    def settled(self) -> bool:
        """Whether the errors of all draws together decide, for every output: False if more draws are needed.
        Raises Stop (Incorrect) if they decide that an output is wrong."""
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
    """True if errors in few numbers are above their bound: further draws of the values are to decide."""
    return not sample.excused and sample.few and share([sample]) > 1
