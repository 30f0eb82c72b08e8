"""The possible outcomes of judging a candidate, one class each, so that no failure has to be encoded as a
number. `Outcome` is the union of them."""

from typing import Annotated, Literal

from pydantic import Field

from kernelblaster.records.record import Record


class Speedup(Record):
    """Baseline time divided by candidate time: the `estimate`, and an interval from `low` to `high`.
    `confidence` is the probability (0.99) with which the interval has the true value. It is None if the
    interval is not statistical: for modelled times, which have the range of the timing model's error, and for
    a hopelessly slow candidate (`Slower` with a reason), which is timed by a single call."""

    estimate: float
    low: float
    high: float
    confidence: float | None


class Accepted(Record):
    """The candidate is correct and faster: the whole confidence interval of its speedup lies above 1 by more
    than the timer's resolution."""

    kind: Literal["Accepted"] = "Accepted"
    speedup: Speedup


class Inconclusive(Record):
    """The candidate is correct as far as it was run, and one of two things holds for its `speedup`. Either it
    is neither faster nor slower by more than the measurement resolves; `reason` is then empty. Or it seems
    faster, and `reason` says what is missing to count it as faster."""

    kind: Literal["Inconclusive"] = "Inconclusive"
    speedup: Speedup
    reason: str = ""


class Slower(Record):
    """The candidate is correct, and slower than the baseline by more than the measurement resolves (`speedup`
    is below 1). With a `reason`, it is so much slower that judging ended early: correct as far as it was run,
    and timed by a single call."""

    kind: Literal["Slower"] = "Slower"
    speedup: Speedup
    reason: str = ""


class Incorrect(Record):
    """The candidate gave wrong results, or results less precise than allowed. `reason` is a short label;
    `evidence` has the sizes, the values and the worst element."""

    kind: Literal["Incorrect"] = "Incorrect"
    reason: str
    evidence: str


class CompileFailed(Record):
    """nvcc reported an error. `reason` is the first error line, `log` the beginning of the compiler's
    output."""

    kind: Literal["CompileFailed"] = "CompileFailed"
    reason: str
    log: str


class RuntimeFailed(Record):
    """The candidate crashed or caused a CUDA error, which is the `reason`; `evidence` says in which call."""

    kind: Literal["RuntimeFailed"] = "RuntimeFailed"
    reason: str
    evidence: str


class TimedOut(Record):
    """The candidate took longer than the limit of `limit_s` seconds; `stage` is the part of judging in which
    that happened."""

    kind: Literal["TimedOut"] = "TimedOut"
    stage: Literal["compile", "verify", "time", "profile", "sanitize"]
    limit_s: float


class Rejected(Record):
    """The candidate broke a rule for candidates (docs/candidates.md): `reason` is the rule's short name,
    `evidence` what was observed."""

    kind: Literal["Rejected"] = "Rejected"
    reason: str
    evidence: str


class Unsupported(Record):
    """There is no verdict: the emulated device lacks an instruction (`reason` names it and its source line),
    or a kernel's time cannot be modelled. A GPU may still judge the candidate. `evidence` may have further
    details."""

    kind: Literal["Unsupported"] = "Unsupported"
    reason: str
    evidence: str = ""


class Abandoned(Record):
    """There is no verdict: the processes that judged the candidate died, and died again when it was judged
    once more, so it is not tried again. `reason` names the candidate and says how they died, `evidence` has
    further details."""

    kind: Literal["Abandoned"] = "Abandoned"
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
    | Unsupported
    | Abandoned,
    Field(discriminator="kind"),
]
LONGEST_WHY = 200  # characters


def why(outcome: Outcome) -> str:
    """Returns why a candidate with this outcome is not correct, or has no verdict, in one line of at most 200
    characters: the reason and the first line of the evidence, or, if a line of the evidence begins with the
    reason, only that line. Empty for a correct candidate."""
    if isinstance(outcome, CORRECT):
        return ""
    if isinstance(outcome, TimedOut):
        return f"no answer within {outcome.limit_s:g} s ({outcome.stage})"
    reason, lines = outcome.reason, getattr(outcome, "evidence", "").splitlines()
    told = next((line for line in lines if line.startswith(reason)), None)
    text = told or ": ".join([reason, *lines[:1]])
    return text if len(text) <= LONGEST_WHY else text[: LONGEST_WHY - 3] + "..."


CORRECT = (Accepted, Inconclusive, Slower)
TEACHES_NOTHING = frozenset({"Unsupported", "Abandoned"})  # no evidence on a technique: of the device
