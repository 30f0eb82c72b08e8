"""`bench`: every task of a suite searched, and measured beside each baseline."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelblaster.api.searching import named_models, search_of
from kernelblaster.bench.bench import KNOWLEDGE, Bench, BenchPlan, Pace, Row
from kernelblaster.bench.jobs import Setup
from kernelblaster.bench.pool import default_workers
from kernelblaster.bench.searching import News
from kernelblaster.bench.starting import EMPTY, SEED, start_knowledge
from kernelblaster.bench.suite import entries_of
from kernelblaster.bench.tables import GroupSummary, cells, summaries
from kernelblaster.devices.specs import gpu_named
from kernelblaster.errors import KernelBlasterError
from kernelblaster.judge.baseline import BaselineName
from kernelblaster.knowledge.address import is_url, knowledge_at, shown
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.opening import DeviceKind, kind_here
from kernelblaster.quantities import kind_text
from kernelblaster.records.signature import Dtype
from kernelblaster.search.model_use import ModelUse
from kernelblaster.sessions.settings import Search
from kernelblaster.settings import settings

BASELINES: tuple[BaselineName, ...] = ("eager", "compile", "max-autotune")


@dataclass(frozen=True)
class BenchResult:
    """What a bench came to, or has come to so far: a row for each task and seed, and their summaries."""

    folder: Path
    device: str
    modelled: bool
    plan: BenchPlan
    rows: list[Row]
    summaries: list[GroupSummary]
    pace: Pace

    @property
    def unfinished(self) -> int:
        return sum(row.result.status == "unfinished" for row in self.rows)

    def report(self, path: str | Path = "report.html") -> Path:
        """Write the page of the bench: one HTML file that needs no network."""
        from kernelblaster.report.writing import read, write

        return write(read([str(self.folder)], self.folder, self.folder), Path(path), set())[0]

    def __repr__(self) -> str:
        lines = [f"<bench of {len(self.rows)} searches on {self.device}{kind_text(self.modelled)}"]
        for one in self.summaries:
            valid, _, mean, *_ = cells(one.summary)
            lines.append(f"  {one.group} against {one.baseline}: {valid} valid, geometric mean {mean or '?'}")
        return "\n".join(lines) + ">"


def bench_result(bench: Bench, folder: Path) -> BenchResult:
    rows = bench.rows()
    modelled = any(row.result.modelled for row in rows) or bench.plan.setup.device == "emulated"
    found = summaries(bench.plan, rows)
    return BenchResult(folder, bench.device, modelled, bench.plan, rows, found, bench.pace)


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
    on_step: Callable[[News], None] = lambda news: None,
) -> BenchResult:
    """Search every task of `suites` (names, folders, `kernelbench:PATH`) and measure what was found.

    All is kept in `folder`; one that is there already is gone on with, and needs no suites. `knowledge` is
    what it knows at first: `seed`, `empty`, or a knowledge base, of which it uses a copy; with `teach`,
    that knowledge base learns what the bench learned. `on_step` is called with news of each search.
    """
    named = [suites] if isinstance(suites, str) else list(suites)
    plan = None
    if named:
        models = named_models(model)
        search = search_of(budget, models)
        kind = kind_here(device, gpu)
        setup = Setup(device=kind, gpu=gpu_key(gpu), dtype=dtype, search=search, knowledge="").asking(models)
        plan = BenchPlan(
            suites=tuple(named),
            entries=tuple(entries_of(named, [], "", subset)),
            setup=setup,
            seeds=tuple(seeds),
            baselines=BASELINES if kind == "cuda" else ("eager",),
            start=recorded_start(knowledge),
        )
    elif folder is None:
        raise KernelBlasterError("name a suite, or a folder to go on with.")
    where = Path(folder) if folder else new_folder(named[0])
    check_teaching(knowledge, teach)
    with opened_bench(where, plan, knowledge) as opened:
        opened.run(workers or default_workers(opened.plan.setup.device), seconds, on_step)
        if teach:
            teach_from(where, knowledge)
        return bench_result(opened, where)


def opened_bench(folder: Path, plan: BenchPlan | None, start: str) -> Bench:
    """The bench in a folder. Where it starts with what a server knows, that is fetched here: the plan has no
    password."""
    found = Bench.open(folder, plan)
    if plan is not None and is_url(start):
        try:
            start_knowledge(start, folder / KNOWLEDGE)
        except BaseException:
            found.close()
            raise
    return found


def recorded_start(start: str) -> str:
    """As a plan records it."""
    return shown(start) if start in (EMPTY, SEED) or is_url(start) else str(Path(start).absolute())


def check_teaching(start: str, teach: bool) -> None:
    if teach and start in (EMPTY, SEED):
        raise KernelBlasterError("to teach a knowledge base, name it with --kb: a file, or postgresql://...")


def teach_from(folder: Path, knowledge: str) -> int:
    """Let a knowledge base learn what a bench learned; the number of new events. A second time changes
    nothing."""
    with KnowledgeBase(folder / KNOWLEDGE, create=False) as own, KnowledgeBase(knowledge_at(knowledge)) as to:
        return to.merge(own)


def new_folder(suite: str) -> Path:
    name = Path(suite.rstrip("/")).name.replace(":", "-") or "bench"
    return settings().data / "benches" / f"{time.strftime('%Y%m%d-%H%M%S')}-{name}"


def gpu_key(gpu: str | None) -> str | None:
    """A GPU by the name that is recorded."""
    return None if gpu is None else gpu_named(gpu).name


def chosen_baselines(given: str, kind: str) -> tuple[BaselineName, ...]:
    """From a list with commas. Eager is always among them: the searches are timed beside it."""
    if not given:
        return BASELINES if kind == "cuda" else ("eager",)
    wanted = [name.strip() for name in given.split(",")]
    unknown = [name for name in wanted if name not in BASELINES]
    if unknown:
        raise KernelBlasterError(f"--baselines {given}: {unknown[0]} is none of {', '.join(BASELINES)}.")
    if kind == "emulated" and wanted != ["eager"]:
        raise KernelBlasterError(f"--baselines {given}: needs a GPU: only eager PyTorch is modelled.")
    return tuple(name for name in BASELINES if name in wanted or name == "eager")
