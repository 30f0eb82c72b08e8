"""What the judge concluded. A tagged union: nothing about failure is ever a number."""

from typing import Annotated, Literal

from pydantic import Field

from kernelblaster.records.record import Record


class Speedup(Record):
    """Baseline time over candidate time: the estimate and its confidence interval. A modelled interval
    has no `confidence`: it is what the model's error leaves open."""

    estimate: float
    low: float
    high: float
    confidence: float | None


class Accepted(Record):
    """Correct, and faster: the interval lies above 1 by more than the timer's resolution."""

    kind: Literal["Accepted"] = "Accepted"
    speedup: Speedup


class Inconclusive(Record):
    """Correct, but neither faster nor slower beyond what this measurement can tell."""

    kind: Literal["Inconclusive"] = "Inconclusive"
    speedup: Speedup


class Slower(Record):
    """Correct, and slower than the baseline."""

    kind: Literal["Slower"] = "Slower"
    speedup: Speedup


class Incorrect(Record):
    """It computes something else, or the same thing less precisely than the baseline does."""

    kind: Literal["Incorrect"] = "Incorrect"
    reason: str
    evidence: str


class CompileFailed(Record):
    kind: Literal["CompileFailed"] = "CompileFailed"
    reason: str
    log: str


class RuntimeFailed(Record):
    """The candidate crashed, or the CUDA runtime reported an error of its doing."""

    kind: Literal["RuntimeFailed"] = "RuntimeFailed"
    reason: str
    evidence: str


class TimedOut(Record):
    kind: Literal["TimedOut"] = "TimedOut"
    stage: Literal["compile", "verify", "time", "profile", "sanitize"]
    limit_s: float


class Rejected(Record):
    """It broke a rule of the contract; `evidence` is what was seen."""

    kind: Literal["Rejected"] = "Rejected"
    reason: str
    evidence: str


class Unsupported(Record):
    """The emulated device cannot say: an instruction that it does not know, by name and source line, or
    a kernel whose time cannot be modelled. No verdict on the candidate."""

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
