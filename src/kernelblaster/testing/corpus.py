"""Reads the exploit corpus: CUDA files that try to cheat the judge, and honest ones. Comments in each file
name its task and the outcome that the judge must give."""

import re
from collections.abc import Mapping
from pathlib import Path

from kernelblaster.records import Candidate, Task
from kernelblaster.tasks.catalog import load_task

ROOT = Path(__file__).parents[3]
FIELD = re.compile(r"^// (task|row|expect|cheat|control|family|plant): (.*)$", re.MULTILINE)
CORRECT = ("Accepted", "Inconclusive", "Slower")


def metadata(source: str) -> dict[str, str]:
    """Returns what the comments of a candidate's source say about it (`// task: NAME` and the like): a dict
    from field name to value."""
    return dict(FIELD.findall(source))


class Corpus:
    """Reads candidate files of the exploit corpus together with the tasks that they name. A task is loaded
    when it is first needed, unless `tasks` has it by its name."""

    def __init__(self, tasks: Mapping[str, Task] | None = None) -> None:
        self._tasks = dict(tasks or {})

    def task(self, name: str) -> Task:
        """Returns the task with this name: the path of a file, relative to the repository, or a task of a
        shipped suite."""
        if name not in self._tasks:
            path = ROOT / name
            self._tasks[name] = load_task(str(path) if path.exists() else name)
        return self._tasks[name]

    def read(self, file: Path) -> tuple[Task, Candidate]:
        """Loads `file`, a file of the corpus. Returns (the task that its comment `// task: NAME` names, the
        candidate)."""
        source = file.read_text()
        return self.task(metadata(source)["task"]), Candidate(source=source, origin=file.name)
