"""How a stage of the judge ends early: by the outcome that a candidate's failure means."""

from kernelblaster.devices.device import (
    CallReport,
    CandidateDied,
    CandidateHung,
    Nondeterministic,
)
from kernelblaster.records import Incorrect, Rejected, RuntimeFailed, TimedOut

_STRAY = "IllegalAddress"
Failure = Incorrect | Rejected | RuntimeFailed | TimedOut


class Stop(Exception):
    """The candidate failed: carries the outcome."""

    def __init__(self, outcome: Failure) -> None:
        super().__init__(outcome.kind)
        self.outcome = outcome


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
