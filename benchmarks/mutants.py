"""What share of mistakes the judge catches: honest kernels with one mistake each, by kind of mistake.

    python benchmarks/mutants.py [--device emulated] [--filter] [--only TEXT] [--most 6] [--seed 0]
                                 [--files N] [--workers N] [--seconds S] [--out results/mutants.md]

Whether a mutant is wrong is found apart from the judge, on the PTX machine (testing/mutant_truth.py).
Mutants that no input shows to be wrong, and those without a verdict, are listed and not counted. On the
emulated device the judge runs small workloads only. With --filter, what the PTX machine rejects is not judged
on the GPU, as a candidate would not be.

Kernels of the tasks with the most kernels come first. The page is written anew after each kernel, so that it
is true of what was done whenever this is ended; with --seconds, it ends itself. With --out, results are also
kept in a JSON file beside it: a second run goes on where the first one stopped, as long as neither the
kernels nor the package have changed.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import torch

import kernelblaster
from kernelblaster.api import open_judge
from kernelblaster.devices.emulated import DEFAULT_GPU, EmulatedDevice
from kernelblaster.devices.specs import GpuSpec, gpu_specs
from kernelblaster.errors import DeviceLost, KernelBlasterError
from kernelblaster.judge.compile import Binary
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.processes.cores import usable_cores
from kernelblaster.processes.parent import die_with_parent
from kernelblaster.records import Candidate, Task, Verification
from kernelblaster.testing.admissible import scalars_of
from kernelblaster.testing.corpus import ROOT, Corpus, metadata
from kernelblaster.testing.mutant_truth import MutantTruth
from kernelblaster.testing.mutants import KINDS, Mutant, choose, mutants_of

FOLDERS = (ROOT / "tests" / "exploits" / "honest", ROOT / "tests" / "candidates")
CALL_LIMIT_S = 4  # a mutant that hangs is to cost seconds, not a minute
_stands_for: dict[str, GpuSpec] = {"gpu": gpu_specs()[DEFAULT_GPU]}
PASSED, NOT_COMPILED, NO_VERDICT = "Verification", "CompileFailed", "Unsupported"


@dataclass(frozen=True)
class Result:
    """One mutant. `wrong` says how it is wrong, or is empty where nothing showed it; `unknown` why nobody
    could look. `verdict` is the judge's, `emulated` that of the judge on the PTX machine. `hole` is for those
    that escape there: whether the small workload's sizes are enough to show the mistake."""

    file: str
    kind: str
    what: str
    line: int
    source: str
    wrong: str
    unknown: str
    verdict: str
    detail: str
    emulated: str
    hole: str
    seconds: float

    @property
    def compiled(self) -> bool:
        return self.verdict != NOT_COMPILED

    @property
    def counted(self) -> bool:
        return self.compiled and bool(self.wrong) and self.verdict != NO_VERDICT

    @property
    def escaped(self) -> bool:
        return self.counted and self.verdict == PASSED

    @property
    def title(self) -> str:
        return f"{self.file}:{self.line} {self.kind}: {self.what}"


@dataclass(frozen=True)
class Job:
    """Which mutants of one file; those in `known` were studied before."""

    file: Path
    seed: int
    most: int
    known: frozenset[str]


@dataclass(frozen=True)
class Studied:
    """What was found about the mutants of one file: `results` for those that were not known, and the digests
    of all that were `chosen`."""

    job: Job
    task: Task
    results: tuple[Result, ...]
    chosen: frozenset[str]


# --- in a process of its own ------------------------------------------------------------------------


def study(job: Job) -> Studied:
    """Every chosen mutant of one file: compiled, shown to be wrong or not, and judged on the PTX machine."""
    task, candidate = _corpus().read(job.file)
    chosen = _chosen(job, task, candidate.source)
    new = [mutant for mutant in chosen if digest(mutant.source) not in job.known]
    results = _results(job, task, candidate, new) if new else []
    return Studied(job, task, tuple(results), frozenset(digest(mutant.source) for mutant in chosen))


def _results(job: Job, task: Task, candidate: Candidate, mutants: Sequence[Mutant]) -> list[Result]:
    judge = _judge()
    original = judge.compile(task, candidate)
    if not isinstance(original, Binary):
        raise KernelBlasterError(f"{job.file}: the original is not accepted: {original.kind}")
    try:
        truth = MutantTruth(_device(), task, original.path, job.seed)
    except KernelBlasterError as error:
        return [_skipped(job, mutant, str(error)) for mutant in mutants]
    return [_study(job, task, mutant, judge, truth) for mutant in mutants]


def _study(job: Job, task: Task, mutant: Mutant, judge: DeviceJudge, truth: MutantTruth) -> Result:
    start = time.perf_counter()
    binary = judge.compile(task, Candidate(source=mutant.source))
    wrong = unknown = hole = ""
    if isinstance(binary, Binary):
        try:
            wrong = truth.difference(binary.path) or mutant.argument
        except KernelBlasterError as error:
            wrong, unknown = mutant.argument, str(error)
        verdict, detail = check(judge, task, mutant.source)
        hole = _hole(task, mutant, binary, truth) if wrong and verdict == PASSED else ""
    else:
        verdict, detail = binary.kind, getattr(binary, "reason", "")
    seconds = time.perf_counter() - start
    return _result(job, mutant, wrong, unknown, verdict, detail, seconds, hole)


def _hole(task: Task, mutant: Mutant, binary: Binary, truth: MutantTruth) -> str:
    """What the judge on the PTX machine lacks."""
    if mutant.argument and mutant.kind == "fence":
        return "memory order"
    shown = task.small is not None and truth.difference(binary.path, task.small)
    return f"values, at {shown}" if shown else "sizes"


def _skipped(job: Job, mutant: Mutant, why: str) -> Result:
    return _result(job, mutant, mutant.argument, why, NO_VERDICT, why, 0.0)


def _result(
    job: Job,
    mutant: Mutant,
    wrong: str,
    unknown: str,
    verdict: str,
    detail: str,
    seconds: float,
    hole: str = "",
) -> Result:
    place = (job.file.stem, mutant.kind, mutant.what, mutant.line, mutant.source)
    return Result(*place, wrong, unknown, verdict, detail, verdict, hole, seconds)


def _chosen(job: Job, task: Task, source: str) -> list[Mutant]:
    free = {size.name for size in task.signature.sizes if size.kind == "free"}
    sizes = {name: extent for name, extent in task.primary.sizes.items() if name in free}
    found = mutants_of(source, sizes, scalars_of(task))
    return choose(found, job.most, random.Random(f"{job.seed} {job.file.name}"))


@cache
def _judge() -> DeviceJudge:
    return DeviceJudge(EmulatedDevice(_stands_for["gpu"]))


@cache
def _device() -> EmulatedDevice:
    return EmulatedDevice(_stands_for["gpu"])


@cache
def _corpus() -> Corpus:
    return Corpus()


def _begin(gpu: GpuSpec) -> None:
    """For this process: binaries are for `gpu`, so that what is compiled here is not compiled again."""
    die_with_parent()
    _stands_for["gpu"] = gpu
    torch.set_num_threads(1)


Verdict = Callable[[Task, Result], Result]

# --- the judge --------------------------------------------------------------------------------------


def check(judge: DeviceJudge, task: Task, source: str) -> tuple[str, str]:
    """The judge's verdict on a source: its kind, and why."""
    try:
        outcome = judge.check(task, Candidate(source=source)).outcome
    except DeviceLost:
        raise
    except KernelBlasterError as error:
        return NO_VERDICT, str(error)
    if isinstance(outcome, Verification):
        return PASSED, ""
    return outcome.kind, getattr(outcome, "reason", "")


def judged(judge: DeviceJudge, filtered: bool) -> Verdict:
    """What a judge on a GPU makes of a result that so far has the PTX machine's verdict only; where that
    filters, not even run there."""

    def verdict(task: Task, result: Result) -> Result:
        if not result.compiled:
            return result
        if filtered and result.emulated == "Rejected":
            return replace(result, detail=f"by the filter: {result.detail}")
        kind, detail = check(judge, task, result.source)
        return replace(result, verdict=kind, detail=detail)

    return verdict


# --- all of them ------------------------------------------------------------------------------------


def main() -> int:
    arguments, start = _arguments(), time.perf_counter()
    os.environ.setdefault("KERNELBLASTER_CALL_LIMIT", str(CALL_LIMIT_S))
    files = [
        file for folder in FOLDERS for file in sorted(folder.glob("*.cu")) if arguments.only in file.name
    ]
    if arguments.files:
        files = random.Random(arguments.seed).sample(files, min(arguments.files, len(files)))
    kept = Kept(arguments.out.with_suffix(".json") if arguments.out else None, arguments.device)
    known = frozenset(kept.results)
    jobs = [Job(file, arguments.seed, arguments.most, known) for file in most_alike_first(files)]
    EmulatedDevice(DEFAULT_GPU).close()  # built here, once, and not by each worker
    if arguments.device == "cuda":
        with open_judge("cuda") as judge:
            tally = Tally(kept, judge.device.name, arguments, start)
            tally.keep(jobs, judge.device.spec, judged(judge, arguments.filter))
    else:
        tally = Tally(kept, _device().name, arguments, start)
        tally.keep(jobs, _device().spec, lambda task, result: result)
    print("\n".join(tally.write()), flush=True)
    return 0


def most_alike_first(files: Sequence[Path]) -> list[Path]:
    """The files, those of the tasks with the most of them first: a task is prepared once for all its
    files."""
    tasks = {file: metadata(file.read_text())["task"] for file in files}
    counts = Counter(tasks.values())
    return sorted(files, key=lambda file: (-counts[tasks[file]], tasks[file]))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="emulated", choices=("emulated", "cuda"))
    parser.add_argument("--filter", action="store_true", help="count what the PTX machine rejects")
    parser.add_argument("--only", default="", help="files whose name contains this")
    parser.add_argument("--files", type=int, help="so many files, drawn by the seed")
    parser.add_argument("--most", type=int, default=6, help="mutants of each file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=max(1, usable_cores() - 1))
    parser.add_argument("--seconds", type=float, help="end after that, with what is done")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def _studied(jobs: Sequence[Job], workers: int, gpu: GpuSpec, left_s: float | None) -> Generator[Studied]:
    """Files are studied side by side and come as they are done; one whose original fails is left out. After
    `left_s` seconds (None: no limit), and where the caller wants no more, what is still studied is ended."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(gpu,))
    waiting = {pool.submit(study, job): job for job in jobs}
    try:
        for done in as_completed(waiting, left_s):
            try:
                yield done.result()
            except KernelBlasterError as error:
                print(f"{waiting[done].file.stem}: left out: {error}", flush=True)
    except TimeoutError:
        return
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.kill()


class Tally:
    """What is kept and told of the mutants; their time is over --seconds after `start`."""

    def __init__(self, kept: "Kept", device: str, arguments: argparse.Namespace, start: float) -> None:
        self._kept = kept
        self._device = device
        self._arguments = arguments
        self._start = start
        self._chosen: set[str] = set()

    @property
    def _left_s(self) -> float | None:
        limit_s = self._arguments.seconds
        return None if limit_s is None else max(0.0, limit_s - (time.perf_counter() - self._start))

    def keep(self, jobs: Sequence[Job], gpu: GpuSpec, judge: Verdict) -> None:
        """Study the mutants of all files, judge them, keep and write the results, until all is done or the
        time is over."""
        with closing(_studied(jobs, self._arguments.workers, gpu, self._left_s)) as studied:
            for one in studied:
                self._chosen |= one.chosen
                for result in one.results:
                    if self._left_s == 0.0:
                        break
                    self._kept.add([judge(one.task, result)])
                self.write()
                done = self._results
                counted, escaped = (sum(getattr(r, name) for r in done) for name in ("counted", "escaped"))
                seconds = time.perf_counter() - self._start
                name = one.job.file.stem
                print(
                    f"{seconds:.0f} s: {counted} counted of {len(done)}, {escaped} escaped; {name}",
                    flush=True,
                )
                if self._left_s == 0.0:
                    return

    def write(self) -> list[str]:
        """The page about all that is done, also in its file."""
        seconds = time.perf_counter() - self._start
        lines = report(self._results, self._device, self._arguments, seconds)
        self._kept.write()
        if self._arguments.out:
            whole = self._arguments.out.with_suffix(".new")
            whole.write_text("\n".join(lines) + "\n")
            whole.replace(self._arguments.out)
        return lines

    @property
    def _results(self) -> list[Result]:
        return [result for key, result in self._kept.results.items() if key in self._chosen]


class Kept:
    """Results by mutant, in a file that is only good for this package and this device."""

    def __init__(self, path: Path | None, device: str) -> None:
        self._path = path
        self._version = f"{device} {_package_digest()}"
        self.results: dict[str, Result] = {}
        if path is not None and path.is_file():
            stored = json.loads(path.read_text())
            if stored["version"] == self._version:
                self.results = {digest(one["source"]): Result(**one) for one in stored["results"]}

    def add(self, results: Sequence[Result]) -> None:
        self.results |= {digest(result.source): result for result in results}

    def write(self) -> None:
        """Write the file, if there is one."""
        if self._path is not None:
            stored = {"version": self._version, "results": [asdict(r) for r in self.results.values()]}
            whole = self._path.with_suffix(".json.new")
            whole.write_text(json.dumps(stored, indent=1))
            whole.replace(self._path)


def digest(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def _package_digest() -> str:
    """Of everything that a verdict may depend on."""
    root = Path(kernelblaster.__file__).parent
    files = sorted(file for file in root.rglob("*") if file.suffix in (".py", ".cpp", ".h", ".toml"))
    return digest("".join(f"{file.relative_to(root)}\n{file.read_text()}" for file in files))


# --- report -----------------------------------------------------------------------------------------


def report(
    results: Sequence[Result], device: str, arguments: argparse.Namespace, seconds: float
) -> list[str]:
    counted = [r for r in results if r.counted]
    escaped = [r for r in results if r.escaped]
    silent = [r for r in results if r.compiled and not r.counted]
    caught = len(counted) - len(escaped)
    files = len({r.file for r in results})
    lines = [
        "# Mutants of honest kernels",
        "",
        f"Device: {device}{', with the filter' if arguments.filter else ''}. {len(results)} mutants of "
        f"{files} kernels, seed {arguments.seed}, in {seconds:.0f} s.",
        f"Caught: {caught} of {len(counted)} that are wrong ({_share(caught, len(counted))}).",
        "",
        "| kind | mutants | not compiled | equivalent or unknown | counted | caught | share |",
        "|---|---|---|---|---|---|---|",
        *(_row(kind, [r for r in results if r.kind == kind]) for kind in KINDS),
        _row("all", results),
        "",
    ]
    holes = Counter(r.hole.split(",")[0] for r in escaped if r.hole)
    if holes:
        lines += ["Holes: " + ", ".join(f"{hole} {count}" for hole, count in holes.most_common()) + ".", ""]
    lines += _list("Escaped", escaped, lambda r: f"{r.hole}: {r.wrong}" if r.hole else r.wrong)
    refused = [r for r in silent if r.verdict not in (PASSED, NO_VERDICT)]
    lines += _list(
        "Refused, though nothing showed them to be wrong", refused, lambda r: f"{r.verdict} {r.detail}"
    )
    quiet = [r for r in silent if r not in refused]
    lines += _list("Equivalent or unknown", quiet, lambda r: r.unknown or "as the original in every input")
    return lines


def _row(kind: str, results: Sequence[Result]) -> str:
    compiled = [r for r in results if r.compiled]
    counted = [r for r in compiled if r.counted]
    caught = sum(not r.escaped for r in counted)
    numbers = (len(results), len(results) - len(compiled), len(compiled) - len(counted), len(counted), caught)
    return f"| {kind} | {' | '.join(str(n) for n in numbers)} | {_share(caught, len(counted))} |"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "none"


def _list(title: str, results: Sequence[Result], why: Callable[[Result], str]) -> list[str]:
    def rows() -> Iterator[str]:
        for r in sorted(results, key=lambda r: (r.kind, r.file, r.line)):
            yield f"- {r.title}  \n  {' '.join(why(r).split())[:300]}"

    return [f"## {title}: {len(results)}", "", *rows(), ""]


if __name__ == "__main__":
    sys.exit(main())
