"""Work over many tasks that is kept in a folder, event by event, and gone on with where it was."""

from pathlib import Path
from typing import Any, Self

from kernelblaster.bench.searching import News, Tell
from kernelblaster.errors import KernelBlasterError
from kernelblaster.store.run import LOG, Run


class Kept:
    """Such work, open. One process works on it at a time; others may read."""

    def __init__(self, folder: Path, kind: str, title: str, *, writing: bool) -> None:
        self.folder = folder
        self._run = Run(folder, writing=writing)
        created = self._run.events[0].data if self._run.events else {}
        if kind not in created:
            self._run.close()
            raise KernelBlasterError(f"{folder}: is no {title}.")
        self._begun_with: Any = created[kind]

    def close(self) -> None:
        self._run.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _recording(self, tell: Tell) -> Tell:
        def heard(news: News) -> None:
            result = news.result
            if result is not None:
                self._run.once("result", result.job, lambda: result.model_dump(mode="json"))
            tell(news)

        return heard


def begin(folder: Path, kind: str, plan: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / LOG).touch()
    with Run(folder, writing=True) as run:
        run.append("created", **{kind: plan})


def holds(folder: Path, kind: str) -> bool:
    """Whether a folder holds work of this kind, and not a run or something else."""
    if not (folder / LOG).is_file():
        return False
    with Run(folder, writing=False) as run:
        return bool(run.events) and kind in run.events[0].data
