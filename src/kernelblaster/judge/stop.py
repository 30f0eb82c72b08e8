"""How a stage of the judge ends early: by the outcome that a candidate's failure means."""

import time
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
WHOLE = 6
Failure = Incorrect | Rejected | RuntimeFailed | TimedOut


class Stop(Exception):
    """The candidate failed: carries the outcome."""

    def __init__(self, outcome: Failure) -> None:
        super().__init__(outcome.kind)
        self.outcome = outcome


class Leash:
    """What one candidate may take in all of a stage: WHOLE times the limit of one call. Entered around each
    of its calls; one that takes too long ends by itself, many that take long together are ended here."""

    def __init__(self, device: Device, stage: Literal["verify", "time"]) -> None:
        self._stage: Literal["verify", "time"] = stage
        self._limit_s = WHOLE * settings().call_limit_s * device.patience
        self._spent_s = self._entered = 0.0

    def __enter__(self) -> None:
        self._entered = time.monotonic()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._spent_s += time.monotonic() - self._entered
        if kind is None and self._spent_s > self._limit_s:
            raise Stop(TimedOut(stage=self._stage, limit_s=self._limit_s))


def failure(error: CandidateDied | CandidateHung, stage: str, where: str) -> Failure:
    """The outcome of a candidate whose process ended or did not answer in `stage`."""
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
    """Raise Stop where the report alone condemns the candidate."""
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
