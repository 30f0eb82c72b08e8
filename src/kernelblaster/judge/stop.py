"""How a stage of the judge ends early when a candidate fails: the exception, the time limit, and which
outcome each failure becomes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from kernelblaster.devices.device import (
    CallReport,
    CandidateDied,
    CandidateHung,
    Device,
    Nondeterministic,
)
from kernelblaster.records import Incorrect, Rejected, RuntimeFailed, TimedOut
from kernelblaster.settings import settings

_STRAY = "IllegalAddress"
WHOLE = 6  # all calls of a candidate may take this many times the limit of one
Failure = Incorrect | Rejected | RuntimeFailed | TimedOut


class Stop(Exception):
    """Raised inside a stage of the judge where a candidate has failed; `outcome` says how. The judge catches
    it and returns that outcome."""

    def __init__(self, outcome: Failure) -> None:
        super().__init__(outcome.kind)
        self.outcome = outcome


class Leash:
    """The limit on the time of all calls of one candidate together, in all stages of the judge. It is six
    times (WHOLE) the limit of one call (`call_limit_s` of the settings, 10 s by default), times the device's
    `patience`: 1 on a GPU, 6 on the emulator. The device enforces the limit of each call; this limit stops
    candidates whose every call takes nearly that long."""

    def __init__(self, device: Device) -> None:
        self._limit_s = WHOLE * settings().call_limit_s * device.patience
        self._spent_s = 0.0

    @contextmanager
    def during(self, stage: Literal["verify", "time"]) -> Iterator[None]:
        """A context around one call, whose time counts towards the limit. At its end, raises Stop (TimedOut
        in `stage`) if all calls together have exceeded the limit. Does not raise it if the call has raised
        another exception."""
        entered = time.monotonic()
        try:
            yield
        finally:
            self._spent_s += time.monotonic() - entered
        if self._spent_s > self._limit_s:
            raise Stop(TimedOut(stage=stage, limit_s=self._limit_s))


def failure(error: CandidateDied | CandidateHung, stage: str, where: str) -> Failure:
    """Returns the outcome of a candidate, one of whose calls ended with `error`: RuntimeFailed if its process
    died; TimedOut if it hung; Rejected if two recordings of the same call asked for different launches.
    `stage` is "time" or "verify"; `where` describes the call in words, as evidence."""
    if isinstance(error, CandidateHung):
        return TimedOut(stage="time" if stage == "time" else "verify", limit_s=error.limit_s)
    if isinstance(error, Nondeterministic):
        return Rejected(
            reason="host-state",
            evidence=f"{error}: the host code keeps state between calls, or depends on more than its "
            f"arguments ({where})",
        )
    return RuntimeFailed(reason=str(error), evidence=where)


def stop_on_report(report: CallReport, where: str) -> None:
    """Raises Stop, with the outcome to give, if the report of a call shows a failure: a broken rule for
    candidates, an error that the emulator found, a CUDA error, or scratch memory that was not freed.
    Otherwise does nothing. `where` describes the call in words, as evidence."""
    if report.violations:
        raise Stop(Rejected(reason="contract", evidence="; ".join(report.violations)))
    if report.findings:
        kind = report.findings[0].split(" ")[0]
        raise Stop(Rejected(reason=kind, evidence="\n".join((where, *report.findings[:5]))))
    if report.error:
        stray = (
            "; it read or wrote outside its tensors, or wrote to an input" if _STRAY in report.error else ""
        )
        raise Stop(RuntimeFailed(reason=report.error, evidence=where + stray))
    if report.live_bytes:
        raise Stop(
            Rejected(
                reason="memory-not-returned",
                evidence="\n".join(
                    (
                        f"{report.live_bytes} bytes of scratch memory were still held after the call; "
                        "give them back with cudaFreeAsync before returning",
                        *report.leaks[:5],
                    )
                ),
            )
        )
