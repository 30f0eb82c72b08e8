"""Where an exported kernel comes from, and the comment at the top of its file that says so."""

from dataclasses import dataclass

from kernelblaster.plain_text import comment
from kernelblaster.quantities import kind_text, time_text
from kernelblaster.records import Candidate, Evaluation
from kernelblaster.records.outcome import CORRECT, Speedup
from kernelblaster.store.files import name_of


@dataclass(frozen=True)
class Origin:
    """Where an exported kernel comes from. `run` is the name of the run, whose best candidate is `candidate`;
    `evaluation` is the verdict on it. `applied` are the techniques that led to it. `architecture` is what it
    was compiled for, such as `sm_90a`."""

    run: str
    candidate: Candidate
    evaluation: Evaluation
    applied: tuple[str, ...]
    architecture: str


def header_lines(origin: Origin) -> list[str]:
    """The lines of the comment at the top of an exported file, without comment marks: task, run, device,
    verdict and the techniques applied. Two hashes identify the candidate: "code", a hash of its source and
    constants, and "source", the name that its source has among the run's files. Line breaks in names are
    removed, so that none can end the comment."""
    evaluation = origin.evaluation
    lines = [
        f"{evaluation.task}, optimized by KernelBlaster",
        f"run {origin.run}, code {origin.candidate.code}, source {name_of(origin.candidate.source)}",
        f"on {evaluation.device} ({origin.architecture})",
    ]
    if isinstance(evaluation.outcome, CORRECT) and evaluation.timing:
        timing = evaluation.timing
        lines.append(
            f"{evaluation.outcome.kind}: {_speedup(evaluation.outcome.speedup, timing.modelled)}; "
            f"{time_text(timing.candidate_us, timing.modelled)}, {timing.baseline} "
            f"{time_text(timing.baseline_us, timing.modelled)}, floor {timing.floor_us:.1f} us"
        )
    if evaluation.verification:
        checked = evaluation.verification
        lines.append(f"verified by {len(checked.cases)} comparisons in {checked.calls} calls")
    lines.append(f"applied: {', '.join(origin.applied) or 'nothing, this is the first candidate'}")
    return [comment(line) for line in lines]


def _speedup(speedup: Speedup, modelled: bool) -> str:
    return f"{speedup.estimate:.3f}x{kind_text(modelled)} ({speedup.low:.3f} to {speedup.high:.3f})"
