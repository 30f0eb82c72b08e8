"""Ablation studies: several arms (ways to search) search the same tasks with the same seeds and the same
budget, so that their results can be compared.

Each search starts from a copy of its arm's knowledge base, so that no search learns from another. The judge's
evaluations are kept (in the folder `verdicts`): all searches of a task get the same verdict on the same
candidate. Like a bench, an ablation is a folder and can be interrupted and continued.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from kernelblaster.bench.coverage import LeftOut
from kernelblaster.bench.jobs import Job, JobResult, Setup
from kernelblaster.bench.pool import WorkerPool, open_fleet, search_all
from kernelblaster.bench.searching import News, Tell
from kernelblaster.bench.studies import Arm, Start, Study, studies_named
from kernelblaster.bench.suite import Entry
from kernelblaster.bench.work_folder import WorkFolder, create_work, holds_work
from kernelblaster.errors import KernelBlasterError
from kernelblaster.fleet.dispatcher import Dispatcher
from kernelblaster.fleet.opening import Machines
from kernelblaster.knowledge.initial import EMPTY, SEED, start_knowledge
from kernelblaster.records.record import Record

TRAINING = "training"
KIND = "ablation"


class AblationPlan(Record):
    """What an ablation compares. `studies` are the names of its studies; each compares several arms, that is
    ways to search. Every arm searches the tasks `entries` with the same `seeds`; `setup` is what arms have in
    common. `left_out` are the tasks of the suites that no arm can search.

    `split` seeds the division of the tasks into two halves. A study whose arms start from trained knowledge
    trains on one half and searches the other; all other studies search every task. `elsewhere` is for the
    study `transfer`, in which one arm starts from knowledge that was trained for another GPU: the name of
    that GPU.
    """

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
        """The tasks divided into two halves, each sorted by name: (those to train a knowledge base on, those
        to search). Which task goes into which half is drawn at random, by the plan's seed `split`."""
        shuffled = Random(self.split).sample(self.entries, len(self.entries))
        half = len(shuffled) // 2
        return sorted(shuffled[:half], key=_name), sorted(shuffled[half:], key=_name)

    def tasks_of(self, study: Study) -> Sequence[Entry]:
        """Returns the tasks that a study searches: all tasks, or only the second half. Only the second half
        is searched if one of the study's arms (the ways to search that it compares) starts from knowledge
        that was trained on the first half."""
        return self.halves[1] if study.trains else self.entries


class Ablation(WorkFolder):
    """An open ablation (searches of the same tasks in several ways, to compare these ways): its plan, its
    results so far, and the searches to do. All is kept in `folder`. With `writing`, it is opened to be
    continued and the folder is locked, so that no other process can do so; without, it can only be read.
    Raises KernelBlasterError if the folder holds something else."""

    def __init__(self, folder: Path, *, writing: bool) -> None:
        super().__init__(folder, KIND, "ablation", writing=writing)
        self.plan = AblationPlan.model_validate(self._begun_with)
        self.studies = studies_named(list(self.plan.studies))

    @staticmethod
    def open(folder: Path, plan: AblationPlan | None = None) -> "Ablation":
        """Opens the ablation in `folder` to continue it, or creates it from `plan`, which may be None if it
        exists. Raises KernelBlasterError if `plan` differs from the recorded one, or if there is neither an
        ablation nor a plan."""
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
        create_work(folder, KIND, plan.model_dump(mode="json"))
        return Ablation(folder, writing=True)

    @property
    def results(self) -> dict[str, JobResult]:
        """The results recorded so far, by the search's key, a text made of arm (way to search), task and
        seed. Searches that only trained a knowledge base are included."""
        return {e.key: JobResult.model_validate(e.data) for e in self._run.events if e.kind == "result"}

    @property
    def jobs(self) -> list[Job]:
        """All searches of the ablation, done or not, each as a job: first those that train a knowledge base,
        then those of each study."""
        return [*self._training(), *(job for study in self.studies for job in self._jobs_of(study))]

    def run(
        self,
        workers: int,
        seconds: float | None = None,
        tell: Tell = lambda news: None,
        *,
        apart: bool = False,
        machines: Machines | None = None,
        store: str | None = None,
    ) -> None:
        """Trains the knowledge bases that arms (ways to search) start from, then does the searches that have
        no result yet, with `workers` processes. No search is started later than `seconds` from now (None: no
        limit); the next call does the rest. `tell` is called with progress. With `apart`, code of tasks,
        which may crash its process, never runs in this one. With `machines`, the devices of a fleet judge;
        None: those of this machine. `store` is the URL of a shared database in which the judge's evaluations
        are kept for all who use it; None: they are kept in the ablation's folder."""
        with open_fleet(machines, self.plan.setup.device, self._run, tell) as dispatcher:
            until = None if seconds is None else time.monotonic() + seconds
            verdicts = store or self.folder / "verdicts"
            self._search(WorkerPool(self.folder, workers, until, verdicts, apart), tell, dispatcher)

    def _search(self, pool: WorkerPool, tell: Tell, dispatcher: Dispatcher | None) -> None:
        """Does the searches that have no result yet in the worker processes of `pool`, on the devices of the
        fleet behind `dispatcher` (None: on this machine's own device). `tell` is called with messages on
        progress."""
        start_knowledge(EMPTY, self._knowledge_path("empty"))
        start_knowledge(SEED, self._knowledge_path("seed"))
        for jobs in (self._training(), [job for study in self.studies for job in self._jobs_of(study)]):
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
                search_all(list(waiting.values()), pool, record, dispatcher)
                self._share(jobs, record)
            done = self.results
            if any(job.key not in done for job in jobs):
                return

    def _share(self, jobs: Sequence[Job], record: Tell) -> None:
        """For each of `jobs` without a result, take over the result of a job that did the same search in
        another arm (several studies may compare the same way to search), and call `record` with it."""
        done = self.results
        known = {job.asks: done[job.key] for job in jobs if job.key in done}
        for job in jobs:
            if job.key not in done and job.asks in known:
                shared = known[job.asks].model_copy(update={"job": job.key, "arm": job.arm})
                record(News("ended", job.key, result=shared))

    def _knowledge_path(self, start: Start) -> Path:
        """The file of the knowledge base that each search with this `start` begins with a copy of."""
        return self.folder / "knows" / f"{start.replace(' ', '-')}.db"

    def _training(self) -> list[Job]:
        """The jobs that search the first half of the tasks, to train knowledge bases: one for the GPU of the
        study, and one for the GPU `elsewhere`, each only if an arm (way to search) starts from what was
        learned there."""
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
                setup=self.plan.setup.model_copy(
                    update={"gpu": gpu, "knowledge": str(self._knowledge_path(start))}
                ),
            )
            for start, gpu in wanted
            for entry in self.plan.halves[0]
        ]

    def _jobs_of(self, study: Study) -> list[Job]:
        """The searches of a study, one for each arm (way to search), task and seed, in the order to do them:
        by seed, then by arm. So different tasks run in parallel, and the next arm reuses their verdicts."""
        return [
            self.job(study, arm, entry, seed)
            for seed in self.plan.seeds
            for arm in study.arms
            for entry in self.plan.tasks_of(study)
        ]

    def job(self, study: Study, arm: Arm, entry: Entry, seed: int) -> Job:
        """Returns the description of one search: the task `entry`, searched with the seed `seed` in the way
        `arm` of `study`. Its settings are the plan's with the changes of the arm; its knowledge base is a
        copy of the one that the arm starts from."""
        setup = self.plan.setup
        own = {
            "search": arm.search(setup.search),
            "knowledge": str(self._knowledge_path(arm.start)),
            "alone": True,
        }
        own |= {"strategy": arm.strategy}
        return Job(
            arm=f"{study.name}: {arm.name}", entry=entry, seed=seed, setup=setup.model_copy(update=own)
        )


def studies_for(names: Sequence[str], setup: Setup, elsewhere: str | None) -> list[Study]:
    """Returns the studies with these names. Raises KernelBlasterError if a name is unknown; if a study needs
    a language model and `setup` has none; or if the study `transfer` is named, and `elsewhere`, the GPU to
    train for, is None or the device of `setup` is not emulated."""
    studies = studies_named(list(names))
    starts = {arm.start for study in studies for arm in study.arms}
    if "trained elsewhere" in starts and (elsewhere is None or setup.device != "emulated"):
        raise KernelBlasterError(
            "the study `transfer` trains for another GPU, which only the emulated device can stand for: use "
            "--device emulated --elsewhere GPU, or leave the study out."
        )
    with_model = [study.name for study in studies if study.needs_model]
    if with_model and setup.policy == "expert":
        raise KernelBlasterError(
            f"the study `{with_model[0]}` compares ways to use a language model: give --model KIND:NAME "
            "(docs/models.md), or leave the study out."
        )
    return studies


def is_ablation(folder: Path) -> bool:
    """Whether there is an ablation in this folder, rather than a bench, a run or nothing."""
    return holds_work(folder, KIND)


def _name(entry: Entry) -> str:
    return entry.name
