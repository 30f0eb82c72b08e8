"""The judge's outcomes, as a tagged union: failures are never encoded as numbers."""

from typing import Annotated, Literal

from pydantic import Field

from kernelblaster.records.record import Record


class Speedup(Record):
    """Baseline time divided by candidate time: the estimate and its confidence interval. A modelled interval
    has no `confidence`: it is the range of the model's error."""

    estimate: float
    low: float
    high: float
    confidence: float | None


class Accepted(Record):
    """Correct, and faster: the interval lies above 1 by more than the timer's resolution."""

    kind: Literal["Accepted"] = "Accepted"
    speedup: Speedup


class Inconclusive(Record):
    """Correct, but neither faster nor slower by more than the measurement resolves."""

    kind: Literal["Inconclusive"] = "Inconclusive"
    speedup: Speedup


class Slower(Record):
    """Correct, and slower than the baseline."""

    kind: Literal["Slower"] = "Slower"
    speedup: Speedup


class Incorrect(Record):
    """Wrong results, or results less precise than allowed."""

    kind: Literal["Incorrect"] = "Incorrect"
    reason: str
    evidence: str


class CompileFailed(Record):
    kind: Literal["CompileFailed"] = "CompileFailed"
    reason: str
    log: str


class RuntimeFailed(Record):
    """The candidate crashed or caused a CUDA error."""

    kind: Literal["RuntimeFailed"] = "RuntimeFailed"
    reason: str
    evidence: str


class TimedOut(Record):
    kind: Literal["TimedOut"] = "TimedOut"
    stage: Literal["compile", "verify", "time", "profile", "sanitize"]
    limit_s: float


class Rejected(Record):
    """It broke a rule of the contract; `evidence` is what was observed."""

    kind: Literal["Rejected"] = "Rejected"
    reason: str
    evidence: str


class Unsupported(Record):
    """No verdict: the emulated device lacks an instruction (named, with its source line), or a kernel's time
    cannot be modelled."""

    kind: Literal["Unsupported"] = "Unsupported"
    reason: str
    evidence: str = ""


Outcome = Annotated[
    Accepted
    | Inconclusive
    | Slower
    | Incorrect
    | CompileFailed
    | RuntimeFailed
    | TimedOut
    | Rejected
    | Unsupported,
    Field(discriminator="kind"),
]
CORRECT = (Accepted, Inconclusive, Slower)
