"""Which of the files that users have are tasks, and which verbs will work on each.

    python benchmarks/own_files.py > results/own-files.md

Nothing is compiled or run on a device: the verbs are tried as `kernelblaster tasks check FILE` tries them.
"""

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

from kernelblaster.errors import BadTask
from kernelblaster.plain_text import markdown
from kernelblaster.readiness import readiness_of
from kernelblaster.records import Task
from kernelblaster.tasks.catalog import load_task
from kernelblaster.tasks.fitness import fitness_of

ROOT = Path(__file__).parent.parent
USERS = ROOT / "tests" / "tasks" / "data" / "users"
PARTS = {"__init__.py", "layers.py", "activations.py"}  # of a project, beside its model


def main() -> None:
    warnings.simplefilter("ignore")
    files = sorted(file for file in USERS.rglob("*.py") if file.name not in PARTS)
    rows = [row(file) for file in files]
    loaded = [cells for cells in rows if cells[1] == "yes"]
    print("# Files as users have them\n")
    print(
        "`python benchmarks/own_files.py`; the files are in `tests/tasks/data/users`. A size is varied where"
    )
    print("held-out workloads have others; in brackets, where the emulator runs it. Own kernels are in")
    print("[own-cu.md](own-cu.md).\n")
    print(f"{len(files)} files: {len(loaded)} are tasks, {len(files) - len(loaded)} refused in a sentence.\n")
    print("| file | loads | type | sizes varied (emulated) | verbs that work | what is said |")
    print("|---|---|---|---|---|---|")
    for cells in rows:
        print("| " + " | ".join(map(markdown, cells)) + " |")


def row(file: Path) -> list[str]:
    name = str(file.relative_to(USERS))
    print(name, file=sys.stderr)
    try:
        task = load_task(str(file))
    except BadTask as error:
        return [name, "no", "", "", "", str(error).replace(f"{USERS}/", "")]
    fitness = fitness_of(task)
    verbs = readiness_of(task, fitness)
    works = [verb.verb for verb in verbs if verb.works]
    said = list(dict.fromkeys([*task.notes, *(verb.why for verb in verbs if verb.why)]))
    types = dict.fromkeys([task.dtype, *(tensor.dtype for tensor in task.signature.tensors)])
    shown = "all" if len(works) == len(verbs) else ", ".join(works)
    return [
        name,
        "yes",
        ", ".join(types),
        ", ".join(sizes(task)),
        shown,
        "; ".join(said).replace(f"{USERS}/", ""),
    ]


def sizes(task: Task) -> Iterator[str]:
    small = task.small
    for size in task.signature.sizes:
        held = {workload.sizes[size.name] for workload in task.held_out}
        if held - {task.primary.sizes[size.name]} or (
            small and small.sizes[size.name] != task.primary.sizes[size.name]
        ):
            emulated = f" ({small.sizes[size.name]})" if small else ""
            yield f"{size.name} {task.primary.sizes[size.name]}{emulated}"


if __name__ == "__main__":
    main()
