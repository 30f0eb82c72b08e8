"""Reads the subjects of a report, benches or runs, from their folders."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kernelblaster.bench.ablation import is_ablation
from kernelblaster.bench.bench import Bench, is_bench
from kernelblaster.bench.jobs import INITIAL, Job, JobResult, Measured, Setup, Spent, result_of
from kernelblaster.bench.measuring import quotient
from kernelblaster.bench.record import BenchPlan, Row
from kernelblaster.bench.suite import Entry
from kernelblaster.errors import StoreError
from kernelblaster.knowledge.initial import SEED
from kernelblaster.models.spending import spent_on_models
from kernelblaster.records.outcome import Speedup
from kernelblaster.search.model_use import recorded_model_use
from kernelblaster.sessions.settings import Search
from kernelblaster.store.history import conclusion
from kernelblaster.store.run import Run, holds_run, open_run, run_folders


@dataclass(frozen=True)
class Subject:
    """What a report is about: a bench, or several runs shown like one. It has a `name`, the name of the
    `device`, and the `plan` (what was to be searched). `rows` are the results of the searches; `runs` has the
    folders of their runs by job key. `fresh`: True for a bench, whose best candidates are measured anew after
    the search; False for runs, whose times come from the search itself. `pace` is a sentence on the
    throughput, empty if that is not known."""

    name: str
    device: str
    plan: BenchPlan
    rows: list[Row]
    runs: dict[str, Path]
    fresh: bool
    pace: str = ""

    @property
    def modelled(self) -> bool:
        """Whether the times of this subject (a bench or runs) come from the GPU model, not from
        measurements."""
        return self.plan.setup.device == "emulated" or any(row.result.modelled for row in self.rows)

    @property
    def only_run(self) -> Path | None:
        """If this subject is a single run of `kernelblaster optimize`, its folder; None if it is a bench or
        several runs."""
        return None if self.fresh or len(self.runs) != 1 else next(iter(self.runs.values()))


def read_subjects(names: Sequence[str], runs: Path, benches: Path) -> list[Subject]:
    """Returns the subjects of a report that `names` stand for: one for each bench, and one for all runs
    together. A name is a folder (of a bench, a run, or of runs) or the unique beginning of a name in the
    folders `benches` or `runs`. Raises StoreError if a name stands for nothing, or for an ablation."""
    subjects: list[Subject] = []
    run_paths: list[Path] = []
    for name in names:
        folder = _folder_of(name, runs, benches)
        if is_ablation(folder):
            raise StoreError(f"{folder}: is an ablation; its page is {folder / 'studies.html'}.")
        if is_bench(folder):
            subjects.append(_bench(folder))
        elif holds_run(folder):
            run_paths.append(folder)
        else:
            run_paths += run_folders(folder)
    if run_paths:
        subjects.append(_runs(run_paths))
    return subjects


def _folder_of(name: str, runs: Path, benches: Path) -> Path:
    """Finds the folder of a bench, a run, or of runs that the user means by `name`: a path, or the beginning
    of a name in the folders `benches` or `runs`. Raises StoreError if there is none."""
    path = Path(name)
    if path.is_dir():
        if holds_run(path) or run_folders(path):
            return path
        raise StoreError(f"{path}: holds neither a bench nor runs.")
    known = [folder for folder in run_folders(benches) if folder.name.startswith(name)]
    if len(known) == 1:
        return known[0]
    with open_run(runs, name) as run:
        return run.folder


def _bench(folder: Path) -> Subject:
    """Reads the bench in a folder as what a report is about. The bench itself is not changed."""
    with Bench(folder, writing=False) as bench:
        rows = bench.rows()
        paths = {r.result.job: folder / "runs" / r.result.run for r in rows if r.result.run}
        return Subject(
            folder.resolve().name, bench.device, bench.plan, rows, paths, fresh=True, pace=str(bench.pace)
        )


def _runs(folders: Sequence[Path]) -> Subject:
    """Reads runs of `optimize` in these folders as one subject of a report. Their only baseline is the one
    that the search timed them against, shown as eager PyTorch."""
    rows, paths, entries = [], {}, []
    setup = None
    for folder in folders:
        with Run(folder, writing=False) as run:
            job = _job(run)
            rows.append(_row(job, run))
        setup = setup or job.setup
        entries.append(job.entry)
        paths[job.key] = folder
    assert setup is not None
    plan = BenchPlan(suites=("runs",), entries=tuple(entries), setup=setup, start=SEED)
    device = next((row.result.device for row in rows if row.result.device), setup.device)
    name = folders[0].name if len(folders) == 1 else f"{len(folders)} runs"
    return Subject(name, device, plan, rows, paths, fresh=False)


def _job(run: Run) -> Job:
    """Describes a run of `optimize` as if it were a search of a bench (task, seed, settings), so that one
    kind of report can show both."""
    about = run.events[0].data if run.events else {}
    task = str(about.get("task", "?"))
    group = Path(task).parent.name or "runs"
    kind: Literal["cuda", "emulated"] = "cuda" if _measured(run) else "emulated"
    search = Search.model_validate(about["search"]) if "search" in about else Search()
    setup = Setup(device=kind, gpu=about.get("gpu"), search=search, knowledge=str(about.get("kb", "")))
    entry = Entry(name=task, path="", group=group, number=0)
    return Job(arm=run.name, entry=entry, seed=search.seed, setup=setup.asking(recorded_model_use(about)))


def _measured(run: Run) -> bool:
    """Whether the run's times were measured on a GPU rather than modelled; if nothing was timed, whether a
    GPU was asked for."""
    verdicts = (event.data["evaluation"] for event in run.events if event.kind == "evaluation")
    timing = next((verdict["timing"] for verdict in verdicts if verdict["timing"] is not None), None)
    asked = run.events[0].data.get("device") if run.events else None
    return asked == "cuda" if timing is None else not timing["modelled"]


def _row(job: Job, run: Run) -> Row:
    """The result of a run of `optimize` in the form of a bench's (`job` names its task and seed);
    `unfinished` if the run has not ended with a timed candidate."""
    judged = [event.data["evaluation"] for event in run.events if event.kind == "evaluation"]
    end = conclusion(run.events, "results")
    codes = {event.key: event.data["evaluation"] for event in run.events if event.kind == "evaluation"}
    best = codes.get(end["best"]) if end else None
    if best is None or best["timing"] is None:
        return Row(
            result_of(job, "unfinished", "the run has not ended").model_copy(
                update={"run": run.name, "device": judged[0]["device"] if judged else None}
            ),
            {},
        )
    first = next(verdict for verdict in judged if "speedup" in verdict["outcome"])
    eager, start = (_beside(job, verdict) for verdict in (best, first))
    assert eager.speedup is not None and start.speedup is not None
    initial = eager.model_copy(
        update={
            "baseline": INITIAL,
            "speedup": quotient(eager.speedup, start.speedup),
            "baseline_us": start.us,
        }
    )
    paid = spent_on_models(run.folder, job.setup.models.prices)
    seconds = max((e.data["seconds"] for e in run.events if e.kind == "batch"), default=0.0)
    result = JobResult(
        job=job.key,
        arm=job.arm,
        task=job.entry.name,
        group=job.entry.group,
        seed=job.seed,
        status="valid",
        run=run.name,
        device=best["device"],
        modelled=best["timing"]["modelled"],
        first_us=start.us,
        best_us=eager.us,
        baseline_us=eager.baseline_us,
        floor_us=eager.floor_us,
        gain=initial.speedup.estimate if initial.speedup else None,
        applied=tuple(end["applied"]) if end else (),
        judged=tuple(_speedup(verdict) for verdict in judged),
        spent=Spent(
            evaluations=len(judged),
            device_seconds=sum(verdict["device_seconds"] for verdict in judged),
            seconds=seconds,
            tokens=paid.tokens,
            usd=paid.usd,
        ),
    )
    return Row(result, {"eager": eager, INITIAL: initial})


def _beside(job: Job, verdict: dict[str, Any]) -> Measured:
    """Turns a recorded evaluation of a correct candidate (JSON data) into a bench's measurement against eager
    PyTorch."""
    timing = verdict["timing"]
    return Measured(
        job=job.key,
        baseline="eager",
        outcome=verdict["outcome"]["kind"],
        speedup=Speedup.model_validate(verdict["outcome"]["speedup"]),
        us=timing["candidate_us"],
        baseline_us=timing["baseline_us"],
        floor_us=timing["floor_us"],
    )


def _speedup(verdict: dict[str, Any]) -> float | None:
    """The speedup in a recorded evaluation (JSON data); None if the candidate was not correct."""
    interval = verdict["outcome"].get("speedup")
    return None if interval is None else float(interval["estimate"])


def open_runs(subject: Subject) -> Iterator[tuple[Row, Run]]:
    """Yields each result that has a run, with that run open for reading. Runs that cannot be read are
    skipped."""
    for row in subject.rows:
        folder = subject.runs.get(row.result.job)
        if folder is None:
            continue
        try:
            run = Run(folder, writing=False)
        except StoreError:
            continue
        with run:
            yield row, run
