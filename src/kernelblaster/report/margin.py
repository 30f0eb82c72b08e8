"""How near a correct candidate came to being refused for its precision."""

from dataclasses import dataclass

from kernelblaster.judge.error_share import share_of
from kernelblaster.records import Verification
from kernelblaster.records.evaluation import CaseResult

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
    share of the bound that they reached; None if nothing was compared."""
    margins = [
        Margin(share_of(case.candidate, case.bound), case)
        for case in verification.cases
        if case.candidate is not None
    ]
    return max(margins, key=lambda margin: margin.share, default=None)
