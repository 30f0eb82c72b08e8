"""`bench`: searches every task of a suite, and measures the results against each baseline (eager PyTorch,
torch.compile, max-autotune, IREE)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelblaster.api.searching import named_models, search_of
from kernelblaster.bench.bench import Bench, bench_knowledge
from kernelblaster.bench.jobs import Setup
from kernelblaster.bench.pool import default_workers
from kernelblaster.bench.record import BenchPlan, Pace, Row
from kernelblaster.bench.searching import News
from kernelblaster.bench.suite import entries_of, new_folder
from kernelblaster.bench.tables import GroupSummary, cells, summaries
from kernelblaster.devices.specs import gpu_named
from kernelblaster.errors import KernelBlasterError
from kernelblaster.fleet.opening import fleet_named, machines_of
from kernelblaster.knowledge.address import knowledge_at
from kernelblaster.knowledge.initial import EMPTY, SEED, recorded_start, start_knowledge
from kernelblaster.knowledge.kept import open_knowledge
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.opening import DeviceKind, kind_here
from kernelblaster.passwords import is_url
from kernelblaster.quantities import kind_text
from kernelblaster.records.evaluation import BaselineName
from kernelblaster.records.signature import Dtype
from kernelblaster.search.model_use import ModelUse
from kernelblaster.sessions.settings import Search

BASELINES: tuple[BaselineName, ...] = ("eager", "compile", "max-autotune")
NAMED_BASELINES: tuple[BaselineName, ...] = (*BASELINES, "iree")  # the last only where it is asked for


@dataclass(frozen=True)
class BenchResult:
    """Result of a bench so far. `folder` is where the bench is kept, `plan` says what it searches and
    measures, `device` is the name of the device. `rows` has one row for each task and seed, also for those
    that are not searched yet. `summaries` has the statistics of each group of tasks (a level or folder)
    against each baseline. `pace` is the throughput. `modelled`: times come from a model of the GPU."""

    folder: Path
    device: str
    modelled: bool
    plan: BenchPlan
    rows: list[Row]
    summaries: list[GroupSummary]
    pace: Pace

    @property
    def unfinished(self) -> int:
        """The number of searches of the bench that still lack a result or the final measurements."""
        return sum(row.result.status == "unfinished" for row in self.rows)

    def report(self, path: str | Path = "report.html") -> Path:
        """Writes a report on the bench to `path`, with figures and every step, and returns the path. It is
        one HTML file that needs no other files."""
        from kernelblaster.report.writing import read, write

        return write(read([str(self.folder)], self.folder, self.folder), Path(path), set())[0]

    def __repr__(self) -> str:
        lines = [f"<bench of {len(self.rows)} searches on {self.device}{kind_text(self.modelled)}"]
        for one in self.summaries:
            valid, _, mean, *_ = cells(one.summary)
            lines.append(f"  {one.group} against {one.baseline}: {valid} valid, geometric mean {mean or '?'}")
        return "\n".join(lines) + ">"


def bench_result(bench: Bench, folder: Path) -> BenchResult:
    """Returns the results that the open bench `bench` has so far: a row for each task and seed, the
    statistics of each group of tasks against each baseline, and the throughput. `folder` is the bench's
    own."""
    rows = bench.rows()
    modelled = any(row.result.modelled for row in rows) or bench.plan.setup.device == "emulated"
    by_group = summaries(bench.plan, rows)
    return BenchResult(folder, bench.device, modelled, bench.plan, rows, by_group, bench.pace)


def bench(
    suites: str | Sequence[str] = (),
    *,
    folder: str | Path | None = None,
    device: DeviceKind = "auto",
    gpu: str | None = None,
    model: str | ModelUse | None = None,
    budget: int | Search | None = None,
    knowledge: str = SEED,
    teach: bool = False,
    seeds: Sequence[int] = (0,),
    subset: int | None = None,
    seconds: float | None = None,
    workers: int | None = None,
    dtype: Dtype | None = None,
    fleet: str | None = None,
    store: str | None = None,
    on_step: Callable[[News], None] = lambda news: None,
) -> BenchResult:
    """Searches for faster kernels for every task of `suites` (names, folders, `kernelbench:PATH`), and
    measures the best kernel of each against PyTorch; returns the results by task and group.

    Everything is recorded in `folder` (a new one in the user's data if left out). If a bench is there
    already, it is continued, and needs no suites. Candidates run on `device`; an emulated one stands for
    `gpu`. `fleet` names devices that judge together, None for this machine's first one. `model` is a language
    model that takes part, KIND:NAME. `budget` is the number of candidates that each search judges, or a
    `Search` with all settings. `dtype` is what floating tensors are cast to. `knowledge` says what the bench
    knows at first: `seed`, `empty`, or a copy of the knowledge base at this path or URL. With `teach`, what
    the bench learned is added to that knowledge base at the end. Every task is searched once for each of
    `seeds`. With `subset`, only so many tasks of each group (a level or folder) are searched, drawn at
    random. After `seconds` no further search is started. `workers` processes search at a time. With `store`
    (postgresql://...) a new bench is kept in that database, and can be continued on other machines. `on_step`
    is called with progress messages.

    Raises KernelBlasterError if neither suites nor a folder are given, if the bench in `folder` was begun
    with other settings, or if `teach` is set and `knowledge` names no knowledge base.
    """
    named = [suites] if isinstance(suites, str) else list(suites)
    if not named and folder is None:
        raise KernelBlasterError("name a suite, or a folder to go on with.")
    where = Path(folder) if folder else new_folder(named[0])
    check_teaching(knowledge, teach)
    plan = None
    with machines_of(fleet_named(fleet)) as machines:
        if named:
            models = named_models(model)
            kind = (machines.kind if machines else kind_here)(device, gpu)
            about = {"device": kind, "gpu": gpu_key(gpu), "dtype": dtype, "knowledge": ""}
            plan = BenchPlan(
                suites=tuple(named),
                entries=tuple(entries_of(named, [], "", subset)),
                setup=Setup(search=search_of(budget, models), **about).asking(models),  # type: ignore[arg-type]
                seeds=tuple(seeds),
                baselines=BASELINES if kind == "cuda" else ("eager",),
                start=recorded_start(knowledge),
            )
        with open_bench(where, plan, knowledge, store) as opened:
            many = workers or default_workers(opened.plan.setup.device, machines)
            opened.run(many, seconds, on_step, machines=machines)
            if teach:
                teach_from(where, knowledge)
            return bench_result(opened, where)


def open_bench(folder: Path, plan: BenchPlan | None, start: str, store: str | None = None) -> Bench:
    """Opens the bench in `folder`. If there is none, creates it by `plan`, in the shared database `store` if
    that is given; `plan` may be None if there is a bench. `start` is the address of the initial knowledge
    base. If it is a database URL and `plan` is given, that knowledge base is copied into the bench now. Later
    it could not be read, because the plan is recorded without the URL's password."""
    bench = Bench.open(folder, plan, store)
    if plan is not None and is_url(start):
        try:
            start_knowledge(start, bench.knowledge)
        except BaseException:
            bench.close()
            raise
    return bench


def check_teaching(start: str, teach: bool) -> None:
    """Raises KernelBlasterError if `teach` is set but `start` (the initial knowledge base) is `empty` or
    `seed`, which cannot be taught."""
    if teach and start in (EMPTY, SEED):
        raise KernelBlasterError("to teach a knowledge base, name it with --kb: a file, or postgresql://...")


def teach_from(folder: Path, knowledge: str) -> int:
    """Adds what the bench in `folder` learned to a knowledge base (a path or URL). Returns how many changes
    were new to it; a second call adds nothing."""
    with (
        KnowledgeBase(bench_knowledge(folder), create=False) as own,
        open_knowledge(knowledge_at(knowledge)) as to,
    ):
        return to.merge(own)


def gpu_key(gpu: str | None) -> str | None:
    """Returns the name under which KernelBlaster knows the GPU that the user named; None if `gpu` is None.
    Raises KernelBlasterError if it knows no such GPU."""
    return None if gpu is None else gpu_named(gpu).name


def chosen_baselines(given: str, kind: str) -> tuple[BaselineName, ...]:
    """Returns the baselines (what speedups are measured against) that the user wants. `given` is a
    comma-separated list such as `eager,iree`. If it is empty, they are those of PyTorch that the device
    supports; `kind` is `cuda` or `emulated`. The result always has `eager`, against which searches are timed.
    Raises KernelBlasterError for a baseline that is unknown or that the device does not support."""
    if not given:
        return BASELINES if kind == "cuda" else ("eager",)
    wanted = [name.strip() for name in given.split(",")]
    unknown = [name for name in wanted if name not in NAMED_BASELINES]
    if unknown:
        names = ", ".join(NAMED_BASELINES)
        raise KernelBlasterError(f"--baselines {given}: {unknown[0]} is none of {names}.")
    if kind == "emulated" and wanted != ["eager"]:
        raise KernelBlasterError(f"--baselines {given}: needs a GPU: only eager PyTorch is modelled.")
    return tuple(name for name in NAMED_BASELINES if name in wanted or name == "eager")
