"""Studies that are run: every arm on the same tasks with the same seeds and the same budget.

Each search goes alone, from a copy of what its arm knows, so that no search learns from another. All
searches of a task see the same verdict on the same candidate (`verdicts`). Like a bench, an ablation is a
folder that is gone on with.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from kernelblaster.bench.coverage import LeftOut
from kernelblaster.bench.jobs import Job, JobResult, Setup
from kernelblaster.bench.kept import KeptLine, begin, holds
from kernelblaster.bench.pool import WorkerPool, search_all
from kernelblaster.bench.searching import News, Tell
from kernelblaster.bench.starting import EMPTY, SEED, start_knowledge
from kernelblaster.bench.studies import Arm, Start, Study, studies_named
from kernelblaster.bench.suite import Entry
from kernelblaster.errors import KernelBlasterError
from kernelblaster.records.record import Record

TRAINING = "training"
KIND = "ablation"


class AblationPlan(Record):
    """`elsewhere` is the GPU that knowledge is brought from. The tasks are split in halves by `split`: one
    trains, the other is searched; studies that need no training search all of them. `left_out` are the
    tasks of the suites that no arm could search."""

    studies: tuple[str, ...]
    suites: tuple[str, ...]
    entries: tuple[Entry, ...]
    left_out: tuple[LeftOut, ...] = ()
    setup: Setup
    seeds: tuple[int, ...] = (0, 1, 2)
    elsewhere: str | None = None
    split: int = 0

    @property
    def halves(self) -> tuple[list[Entry], list[Entry]]:
        """To train on, and to search."""
        shuffled = Random(self.split).sample(self.entries, len(self.entries))
        half = len(shuffled) // 2
        return sorted(shuffled[:half], key=_name), sorted(shuffled[half:], key=_name)

    def tasks_of(self, study: Study) -> Sequence[Entry]:
        return self.halves[1] if study.trains else self.entries


class Ablation(KeptLine):
    """An open ablation."""

    def __init__(self, folder: Path, *, writing: bool) -> None:
        super().__init__(folder, KIND, "ablation", writing=writing)
        self.plan = AblationPlan.model_validate(self._begun_with)
        self.studies = studies_named(list(self.plan.studies))

    @staticmethod
    def open(folder: Path, plan: AblationPlan | None = None) -> "Ablation":
        """The one in a folder, to go on with; a new one where there is none."""
        if is_ablation(folder):
            ablation = Ablation(folder, writing=True)
            if plan is not None and plan != ablation.plan:
                ablation.close()
                raise KernelBlasterError(
                    f"{folder}: was begun with other settings; name no suite to go on with it, or another "
                    "folder."
                )
            return ablation
        if plan is None:
            raise KernelBlasterError(f"{folder}: there is no ablation to go on with; name a suite.")
        studies_for(plan.studies, plan.setup, plan.elsewhere)
        begin(folder, KIND, plan.model_dump(mode="json"))
        return Ablation(folder, writing=True)

    @property
    def results(self) -> dict[str, JobResult]:
        return {e.key: JobResult.model_validate(e.data) for e in self._run.events if e.kind == "result"}

    @property
    def jobs(self) -> list[Job]:
        """Everything that is to be searched; training first."""
        return [*self._training(), *(job for study in self.studies for job in self._of(study))]

    def run(
        self,
        workers: int,
        seconds: float | None = None,
        tell: Tell = lambda news: None,
        *,
        apart: bool = False,
    ) -> None:
        """Train, then search what was not searched yet; nothing new is begun after so many seconds. `apart`
        as of a bench."""
        until = None if seconds is None else time.monotonic() + seconds
        pool = WorkerPool(self.folder, workers, until, self.folder / "verdicts", apart)
        start_knowledge(EMPTY, self._known("empty"))
        start_knowledge(SEED, self._known("seed"))
        for jobs in (self._training(), [job for study in self.studies for job in self._of(study)]):
            for job in jobs:
                start_knowledge(EMPTY, Path(job.setup.knowledge))
            record = self._recording(tell)
            self._share(jobs, record)
            done = self.results
            waiting: dict[str, Job] = {}
            for job in jobs:
                if job.key not in done:
                    waiting.setdefault(job.asks, job)
            if waiting and not pool.over:
                search_all(list(waiting.values()), pool, record)
                self._share(jobs, record)
            done = self.results
            if any(job.key not in done for job in jobs):
                return

    def _share(self, jobs: Sequence[Job], record: Tell) -> None:
        """Studies have arms in common: what one of them searched, the others need not."""
        done = self.results
        found = {job.asks: done[job.key] for job in jobs if job.key in done}
        for job in jobs:
            if job.key not in done and job.asks in found:
                shared = found[job.asks].model_copy(update={"job": job.key, "arm": job.arm})
                record(News("ended", job.key, result=shared))

    def _known(self, start: Start) -> Path:
        return self.folder / "knows" / f"{start.replace(' ', '-')}.db"

    def _training(self) -> list[Job]:
        """The first half, which teaches one knowledge base for each GPU that is trained for."""
        starts = {arm.start for study in self.studies for arm in study.arms}
        wanted: list[tuple[Start, str | None]] = []
        if "trained" in starts:
            wanted.append(("trained", self.plan.setup.gpu))
        if "trained elsewhere" in starts:
            wanted.append(("trained elsewhere", self.plan.elsewhere))
        return [
            Job(
                arm=f"{TRAINING} {start}",
                entry=entry,
                seed=0,
                setup=self.plan.setup.model_copy(update={"gpu": gpu, "knowledge": str(self._known(start))}),
            )
            for start, gpu in wanted
            for entry in self.plan.halves[0]
        ]

    def _of(self, study: Study) -> list[Job]:
        """One arm after another: side by side go different tasks, and the next arm finds their verdicts."""
        return [
            self.job(study, arm, entry, seed)
            for seed in self.plan.seeds
            for arm in study.arms
            for entry in self.plan.tasks_of(study)
        ]

    def job(self, study: Study, arm: Arm, entry: Entry, seed: int) -> Job:
        setup = self.plan.setup
        search = setup.search.model_copy(update=arm.settings)
        own = {"search": search, "knowledge": str(self._known(arm.start)), "alone": True}
        own |= {"strategy": arm.strategy}
        return Job(
            arm=f"{study.name}: {arm.name}", entry=entry, seed=seed, setup=setup.model_copy(update=own)
        )


def studies_for(names: Sequence[str], setup: Setup, elsewhere: str | None) -> list[Study]:
    """The studies by name; an error where one of them cannot be run with this setup."""
    found = studies_named(list(names))
    starts = {arm.start for study in found for arm in study.arms}
    if "trained elsewhere" in starts and (elsewhere is None or setup.device != "emulated"):
        raise KernelBlasterError(
            "the study `transfer` trains for another GPU, which only the emulated device can stand for: use "
            "--device emulated --elsewhere GPU, or leave the study out."
        )
    asking = [study.name for study in found if study.needs_model]
    if asking and setup.policy == "expert":
        raise KernelBlasterError(
            f"the study `{asking[0]}` compares ways to use a language model: give --model KIND:NAME "
            "(docs/models.md), or leave the study out."
        )
    return found


def is_ablation(folder: Path) -> bool:
    return holds(folder, KIND)


def _name(entry: Entry) -> str:
    return entry.name
