"""Work over many tasks that is kept in a folder, event by event, and gone on with where it was."""

from pathlib import Path
from typing import IO, Any, Self

from kernelblaster.bench.searching import News, Tell
from kernelblaster.bench.working import begin_work
from kernelblaster.errors import KernelBlasterError
from kernelblaster.store.run import LOG, Run, begin_run


class KeptLine:
    """Such work, open. One process works on it at a time; others may read."""

    def __init__(self, folder: Path, kind: str, title: str, *, writing: bool) -> None:
        self.folder = folder
        self._run = Run(folder, writing=writing)
        created = self._run.events[0].data if self._run.events else {}
        if kind not in created:
            self._run.close()
            raise KernelBlasterError(f"{folder}: is no {title}.")
        self._begun_with: Any = created[kind]
        self._working: IO[str] | None = None
        if writing:
            try:
                self._working = begin_work(folder)
            except BaseException:
                self._run.close()
                raise

    def close(self) -> None:
        if self._working is not None:
            self._working.close()
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
    begin_run(folder, **{kind: plan}).close()


def holds(folder: Path, kind: str) -> bool:
    """Whether a folder holds work of this kind, and not a run or something else."""
    if not (folder / LOG).is_file():
        return False
    with Run(folder, writing=False) as run:
        return bool(run.events) and kind in run.events[0].data
