"""Says why a search cannot begin: its first candidate was judged, and is not correct."""

from kernelblaster.records import Candidate, Outcome, Task
from kernelblaster.tasks.cuda_prepare import in_own_lines


def not_correct(task: Task, candidate: Candidate, outcome: Outcome) -> str:
    """A sentence for the user: what is wrong with the first candidate, with the first line of the evidence.
    If the candidate is the CUDA file that the task is about, lines are those of the user's file."""
    own = task.kind == "cuda" and candidate.source == task.source
    reason = str(getattr(outcome, "reason", ""))
    seen = str(getattr(outcome, "evidence", "")).partition("\n")[0].strip()
    seen = in_own_lines(seen, task.source) if own else seen
    told = ": ".join(part.rstrip(".") for part in (outcome.kind, reason, seen) if part)
    return f"{task.name}: {'the file, as it is,' if own else 'the first candidate'} is not correct ({told})."
