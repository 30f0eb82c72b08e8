"""How near a correct candidate came to being refused for its precision."""

from dataclasses import dataclass

from kernelblaster.records import Verification
from kernelblaster.records.evaluation import CaseResult, Errors

NARROW = 0.8  # of an allowed error: above, another draw of values may refuse the candidate


@dataclass(frozen=True)
class Margin:
    """The comparison of a passed verification in which errors were nearest to their bound: `share` is the
    largest error over the allowed one (0 to 1), `case` the comparison."""

    share: float
    case: CaseResult

    @property
    def narrow(self) -> bool:
        return self.share > NARROW

    @property
    def warning(self) -> str:
        """A sentence that tells the user how near the errors came to their bound, and that other values may
        exceed it. To be shown if the margin is `narrow`."""
        return (
            f"errors reach {self.share:.2f} of what is allowed (values {self.case.distribution}, workload "
            f"{self.case.workload}): on other draws of values it may be refused"
        )


def margin_of(verification: Verification) -> Margin | None:
    """Returns the comparison of a passed verification in which errors were nearest to their bound, with the
    share of the bound that they reached; None if nothing with a bound was compared."""
    margins = [Margin(_share(case), case) for case in verification.cases if case.candidate is not None]
    return max(margins, key=lambda margin: margin.share, default=None)


def _share(case: CaseResult) -> float:
    """The largest error of a comparison over its bound, by any measure that has one."""
    assert case.candidate is not None
    pairs = zip(_measures(case.candidate), _measures(case.bound), strict=True)
    return max((error / bound for error, bound in pairs if bound), default=0.0)


def _measures(errors: Errors) -> tuple[float, ...]:
    return (errors.rms, errors.worst, errors.tile, errors.relative, errors.lost)
