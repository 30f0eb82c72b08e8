"""Says why a search cannot begin: its first candidate was judged, and is not correct."""

import re

from kernelblaster.records import Candidate, Outcome, Task
from kernelblaster.tasks.cuda_prepare import in_own_lines


def not_correct(task: Task, candidate: Candidate, outcome: Outcome) -> str:
    """Returns a sentence for the user that says what is wrong with the first candidate, from its `outcome`
    and the first line of the evidence. If the candidate is the CUDA file that the task was made of, line
    numbers are those of the user's file. If such a file fails at a size larger than the timed one, a second
    sentence says how to declare that the size is fixed."""
    own = task.kind == "cuda" and candidate.source == task.source
    reason = str(getattr(outcome, "reason", ""))
    seen = str(getattr(outcome, "evidence", "")).partition("\n")[0].strip()
    seen = in_own_lines(seen, task.source) if own else seen
    told = ": ".join(part.rstrip(".") for part in (outcome.kind, reason, seen) if part)
    which = "the file, as it is," if own else "the first candidate"
    return f"{task.name}: {which} is not correct ({told}).{_larger(task, seen) if own else ''}"


def _larger(task: Task, seen: str) -> str:
    """What to do if the user's own kernel fails at sizes that are larger than the primary ones: a sentence
    with the line that declares the first of these sizes as fixed. Empty if `seen`, the evidence, names
    none."""
    for name, value in re.findall(r"'(\w+)': (\d+)", seen):
        line = re.search(rf"^// size: {name} = [^\n]*", task.source, re.MULTILINE)
        if line and "fixed" not in line[0] and int(value) > task.primary.sizes.get(name, int(value)):
            return f" If it is not for such sizes, declare it so (docs/tasks.md): {line[0]}, fixed"
    return ""
