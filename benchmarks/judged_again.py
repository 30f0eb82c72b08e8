"""Whether kernels that were judged once get the same verdicts today.

    python benchmarks/judged_again.py [TASK ...] [--results results/core-h200/report.csv] [--device cuda]
                                      [--seconds 240] [--out PAGE.md]

The results name the techniques that gave the best kernel of each task. Each kernel is written again by the
same techniques and judged beside eager PyTorch. A task is listed as different if it was valid and is not
correct now, or if it was faster than eager by more than a tenth and is not Accepted. A technique may write
another kernel today than it did then, so times are shown beside each other and are no reason. PAGE is written
after every kernel; nothing is begun after --seconds.
"""

import argparse
import csv
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from expert_kernels import Job, jobs_of
from publish import keep

from kernelblaster.api import open_judge
from kernelblaster.errors import KernelBlasterError
from kernelblaster.processes.cores import usable_cores
from kernelblaster.processes.parent import die_with_parent
from kernelblaster.records import Evaluation
from kernelblaster.testing.corpus import CORRECT, ROOT

AT_THE_START = ("algebraic_simplification", "kernel_fusion")  # which expert_kernels.py applies to every plan
FASTER = 1.1
HEAD = [
    "| task | then | now | then us | now us | speedup then | now | as then |",
    "|---|---|---|---|---|---|---|---|",
]


@dataclass(frozen=True)
class Then:
    """What the results say of a task's best kernel. `speedup` is over eager PyTorch; it and `us` are None
    where nothing valid was found."""

    task: str
    path: str
    valid: bool
    us: float | None
    speedup: float | None


@dataclass(frozen=True)
class Again:
    """A kernel's verdict then and now; `now` is in words where it could not be written or judged."""

    then: Then
    now: Evaluation | str

    @property
    def same(self) -> bool:
        if isinstance(self.now, str):
            return False
        kind = self.now.outcome.kind
        if not self.then.valid:
            return True
        return kind == "Accepted" if (self.then.speedup or 0) > FASTER else kind in CORRECT

    @property
    def evidence(self) -> str:
        """What the outcome says in its support; empty if it says nothing, or where there is none."""
        return "" if isinstance(self.now, str) else str(getattr(self.now.outcome, "evidence", ""))

    @property
    def row(self) -> str:
        then = self.then
        cells = [then.task, "valid" if then.valid else "not valid"]
        timing = None if isinstance(self.now, str) else self.now.timing
        cells.append(self.now if isinstance(self.now, str) else self.now.outcome.kind)
        cells += [f"{then.us:.1f}" if then.us else "", f"{timing.candidate_us:.1f}" if timing else ""]
        cells += [
            f"{then.speedup:.2f}" if then.speedup else "",
            f"{timing.speedup.estimate:.2f}" if timing else "",
        ]
        return (
            "| "
            + " | ".join(cell.replace("|", "/") for cell in [*cells, "yes" if self.same else "NO"])
            + " |"
        )


def covered(results: Path, names: list[str]) -> list[Then]:
    """The tasks of a report (CSV) for which a kernel was found; only those in `names`, if there are any."""
    found = []
    with results.open() as file:
        for line in csv.DictReader(file):
            if line["applied"] and (not names or line["task"] in names):
                path = ",".join(name for name in line["applied"].split() if name not in AT_THE_START)
                us, speedup = (float(line[key]) if line[key] else None for key in ("us", "speedup_eager"))
                found.append(Then(line["task"], path, line["status"] == "valid", us, speedup))
    return found


def written(then: Then) -> Job | str:
    """The kernel of a task, written by its techniques, or why that cannot be."""
    try:
        return jobs_of(then.task, [then.path])[0]
    except KernelBlasterError as error:
        return str(error)[:200]


def page(found: list[Again], asked: int, device: str) -> list[str]:
    same = sum(one.same for one in found)
    told = f"{len(found)} of {asked} kernels judged again; the verdict of {same} is as it was."
    why = [f"- {one.then.task}: {one.evidence}" for one in found if not one.same and one.evidence]
    table = [*HEAD, *(one.row for one in found)]
    return [
        "# Kernels judged again",
        "",
        f"Device: {device}. {told}",
        "",
        *table,
        *(["", *why] if why else []),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("tasks", nargs="*")
    parser.add_argument("--results", type=Path, default=ROOT / "results" / "core-h200" / "report.csv")
    parser.add_argument("--device", choices=("cuda", "emulated"), default="cuda")
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    start = time.monotonic()
    wanted = covered(options.results, options.tasks)
    found: list[Again] = []
    workers = max(1, min(8, usable_cores() - 1))
    context = multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(workers, mp_context=context, initializer=die_with_parent) as pool,
        open_judge(options.device) as judge,
    ):
        for then, job in zip(wanted, pool.map(written, wanted), strict=True):
            if time.monotonic() - start > options.seconds:
                pool.shutdown(cancel_futures=True)
                break
            try:
                now = job if isinstance(job, str) else judge.evaluate(job.task, job.candidate)
            except KernelBlasterError as error:
                now = str(error)[:200]
            found.append(Again(then, now))
            print(found[-1].row, flush=True)
            keep(page(found, len(wanted), judge.device.name), options.out)
    print("\n".join(page(found, len(wanted), "")[2:3]))
    return any(not one.same for one in found)


if __name__ == "__main__":
    raise SystemExit(main())
