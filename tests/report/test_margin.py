"""How near a correct candidate came to being refused for its precision."""

import pytest

from kernelblaster.records import Verification
from kernelblaster.records.evaluation import CaseResult, Errors
from kernelblaster.report.margin import margin_of

BOUND = Errors(rms=1e-6, worst=4e-6, tile=2e-6, relative=2e-6, lost=0)


def case(worst: float, distribution: str) -> CaseResult:
    errors = Errors(rms=1e-8, worst=worst, tile=0, relative=0, lost=0)
    return CaseResult(
        workload="below",
        distribution=distribution,
        output="out",
        candidate=errors,
        baseline=errors,
        bound=BOUND,
        passed=True,
    )


def verified(*cases: CaseResult) -> Verification:
    return Verification(cases=cases, calls=1, deterministic=True, seconds=1.0)


def test_the_narrowest_margin_is_found() -> None:
    margin = margin_of(verified(case(1e-7, "written"), case(3.8e-6, "step"), case(2e-6, "scaled")))
    assert margin is not None and margin.narrow
    assert margin.share == pytest.approx(0.95)
    assert "0.95 of what is allowed (values step, workload below)" in margin.warning
    wide = margin_of(verified(case(1e-7, "written")))
    assert wide is not None and not wide.narrow
    assert margin_of(verified()) is None
