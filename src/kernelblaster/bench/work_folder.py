"""`WorkFolder`, the base class of benches and ablations: work on many tasks, recorded in a folder so that it
can be continued."""

from pathlib import Path
from typing import IO, Any, Self

from kernelblaster.bench.searching import News, Tell
from kernelblaster.bench.work_lock import acquire_work_lock
from kernelblaster.errors import KernelBlasterError
from kernelblaster.store.run import Run, SharedRuns, begin_run, holds_run


class WorkFolder:
    """An open bench or ablation in its folder. Its progress is recorded in an event log, of the same form as
    that of a run. One process at a time may write; others may read. The log's first event has the plan under
    the name `kind`: "plan" for a bench, "ablation" for an ablation. `title` is for messages. Raises
    KernelBlasterError if the folder holds something else, StoreError if another process is writing."""

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
                self._working = acquire_work_lock(folder)
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
        """A function that records the result in a message, if any, as an event, and then passes the message
        to `tell`."""

        def record(news: News) -> None:
            result = news.result
            if result is not None:
                self._run.once("result", result.job, lambda: result.model_dump(mode="json"))
            tell(news)

        return record


def create_work(folder: Path, kind: str, plan: dict[str, Any], store: str | None = None) -> None:
    """Creates the folder of a new bench or ablation, with an event log. The log's first event has `plan`
    under the name `kind` ("plan" or "ablation"). `store` is the URL of a shared store to keep the log in;
    None: it is in the folder."""
    begin_run(folder, kept=None if store is None else SharedRuns(store), **{kind: plan}).close()


def holds_work(folder: Path, kind: str) -> bool:
    """Whether this folder holds a bench or an ablation, as `kind` says: the first event of its log has a plan
    of that kind."""
    if not holds_run(folder):
        return False
    with Run(folder, writing=False) as run:
        return bool(run.events) and kind in run.events[0].data
