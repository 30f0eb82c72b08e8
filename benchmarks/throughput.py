"""What one verdict costs: against a torch extension, in a batch of 64, and with profiling.

python benchmarks/throughput.py [--stages] [--out results/throughput.md]

With --stages, the functions in which a batch's time goes are watched: a row for each says how often it was
called, the seconds in it, and the seconds in it alone, without the other functions of the table.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

os.environ.setdefault("TORCH_CUDA_ARCH_LIST", "9.0a")

import torch
from publish import keep, publish
from torch.utils.cpp_extension import load_inline

from kernelblaster.api import DeviceJudge, open_device
from kernelblaster.devices.cuda import CudaDevice
from kernelblaster.devices.replay import ReplayRunner
from kernelblaster.judge import compare_outputs, timing, under_test
from kernelblaster.judge.baseline import ModuleBaseline
from kernelblaster.judge.compare_outputs import OutputComparer
from kernelblaster.judge.layout import Layout
from kernelblaster.judge.memory_check import MemoryCheck
from kernelblaster.judge.order_check import OrderCheck
from kernelblaster.judge.prepare import TaskPreparer
from kernelblaster.judge.timing import Timer
from kernelblaster.judge.truth import Truth
from kernelblaster.judge.verify import Verifier
from kernelblaster.records import Candidate, Profile
from kernelblaster.testing.corpus import CORRECT, ROOT, Corpus

EXAMPLE = ROOT / "examples" / "softmax.cu"
WRAPPER = """
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
torch::Tensor softmax_forward(torch::Tensor x) {
  auto out = torch::empty_like(x);
  launch_gpu_implementation(out.data_ptr<float>(), x.data_ptr<float>(), x.size(0), x.size(1),
                            c10::cuda::getCurrentCUDAStream());
  return out;
}
"""
WATCHED: tuple[tuple[Any, str], ...] = (
    (DeviceJudge, "finish"),
    (TaskPreparer, "prepare"),
    (CudaDevice, "start"),
    (CudaDevice, "arena"),
    (CudaDevice, "settle"),
    (ReplayRunner, "record"),
    (ReplayRunner, "call"),
    (ReplayRunner, "time"),
    (ReplayRunner, "again"),
    (ReplayRunner, "mapped"),
    (ReplayRunner, "prepare"),
    (ReplayRunner, "close"),
    (Verifier, "verify"),
    (Verifier, "_slow_call"),
    (Verifier, "_check"),
    (Verifier, "_draw"),
    (Verifier, "_run"),
    (ModuleBaseline, "outputs"),
    (ModuleBaseline, "wide"),
    (ModuleBaseline, "timed"),
    (Truth, "write"),
    (Truth, "_widened"),
    (Truth, "_shake"),
    (Truth, "demands"),
    (MemoryCheck, "_hashes"),
    (OutputComparer, "compare"),
    (OutputComparer, "_coarsened"),
    (OutputComparer, "_conditioned"),
    (compare_outputs, "compare"),
    (compare_outputs, "compare_all"),
    (Layout, "set_guards"),
    (Layout, "broken_guard"),
    (Timer, "time"),
    (Timer, "_round"),
    (Timer, "_fill"),
    (Timer, "_sample"),
    (Timer, "_check_outputs"),
    (Timer, "_check_exactly"),
    (Timer, "_batch"),
    (timing, "interval"),
    (under_test, "check_host_code"),
    (OrderCheck, "look"),
    (OrderCheck, "_workloads"),
)


@dataclass
class Taken:
    """How often a function was called, the seconds in it, and those in it alone."""

    calls: int = 0
    seconds: float = 0.0
    alone: float = 0.0


class Watch:
    """Adds up what the functions of WATCHED take in this process, from `start` on."""

    def __init__(self) -> None:
        self.taken: dict[str, Taken] = {}
        self._within = [0.0]

    def start(self) -> None:
        for owner, name in WATCHED:
            if hasattr(owner, name):
                setattr(
                    owner,
                    name,
                    self._watched(f"{owner.__name__.split('.')[-1]}.{name}", getattr(owner, name)),
                )

    def _watched(self, title: str, function: Callable[..., Any]) -> Callable[..., Any]:
        taken = self.taken[title] = Taken()

        @wraps(function)
        def watched(*values: Any, **named: Any) -> Any:
            self._within.append(0.0)
            start = time.perf_counter()
            try:
                return function(*values, **named)
            finally:
                seconds = time.perf_counter() - start
                taken.calls += 1
                taken.seconds += seconds
                taken.alone += seconds - self._within.pop()
                self._within[-1] += seconds

        return watched


def torch_extension(rows: int, columns: int) -> float:
    """Seconds to build the example as a torch extension and to time it."""
    start = time.perf_counter()
    extension = load_inline(
        name=f"softmax_{os.getpid()}",
        cpp_sources="torch::Tensor softmax_forward(torch::Tensor x);",
        cuda_sources=EXAMPLE.read_text() + WRAPPER,
        functions=["softmax_forward"],
        extra_cuda_cflags=["-O3"],
        build_directory=tempfile.mkdtemp(),
    )
    x = torch.randn(rows, columns, device="cuda")
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    for _ in range(60):
        events[0].record()
        extension.softmax_forward(x)
        events[1].record()
        torch.cuda.synchronize()
    return time.perf_counter() - start


def fresh(candidate: Candidate, number: int) -> Candidate:
    """The same code in a file that no cache has seen."""
    return candidate.model_copy(update={"source": f"{candidate.source}\n// {time.time_ns()} {number}\n"})


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Table:
    """The table, written after each row."""

    def __init__(self, device: str, out: Path | None) -> None:
        self.lines = [f"# What a verdict costs on {device}, {os.cpu_count()} cores", ""]
        self.lines += ["| what | figure | wanted |", "|---|---|---|"]
        self._out = out

    def add(self, what: str, figure: str, wanted: str = "") -> None:
        self.lines.append(f"| {what} | {figure} | {wanted} |")
        say(self.lines[-1])
        keep(self.lines, self._out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--device", default="cuda", choices=("cuda", "emulated"), help="emulated: to try this"
    )
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--stages", action="store_true", help="say in which functions the batch's time went")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    corpus = Corpus()
    task = corpus.task("core/level1/softmax")
    example = Candidate(source=EXAMPLE.read_text())
    device = open_device(arguments.device)
    judge = DeviceJudge(device)
    table = Table(device.name, arguments.out)
    judge.evaluate(task, fresh(example, 0))
    ours = []
    for number in range(5):
        start = time.perf_counter()
        evaluation = judge.evaluate(task, fresh(example, number))
        ours.append(time.perf_counter() - start)
        assert evaluation.outcome.kind in CORRECT, evaluation.outcome
    ours_s = sorted(ours)[2]
    what = "the same source through the judge: compiled, verified, timed (median of 5)"
    table.add(what, f"{ours_s:.2f} s", "at most 2.2 s")

    honest = sorted((ROOT / "tests" / "exploits" / "honest").glob("*.cu"))
    honest = [f for f in honest if "slow" not in f.name]
    jobs = [corpus.read(honest[n % len(honest)]) for n in range(arguments.batch)]
    jobs = [(t, fresh(c, n)) for n, (t, c) in enumerate(jobs)]
    watch = Watch()
    if arguments.stages:
        watch.start()
    start = time.perf_counter()
    evaluations = list(judge.evaluate_many(jobs))
    batch_s = time.perf_counter() - start
    correct = sum(e.outcome.kind in CORRECT for e in evaluations)
    tasks = len({t.name for t, _ in jobs})
    table.add(f"{len(jobs)} candidates of {tasks} tasks, none cached", f"{batch_s:.1f} s")
    table.add("candidates a minute", f"{len(jobs) * 60 / batch_s:.0f}", "at least 100")
    table.add("of these correct", f"{correct} of {len(jobs)}")

    for title, taken in sorted(watch.taken.items(), key=lambda item: -item[1].alone):
        figure = f"{taken.calls} calls, {taken.seconds:.2f} s, alone {taken.alone:.2f} s"
        table.add(f"of the batch: {title}", figure)

    batch = [fresh(example, n) for n in range(8)]
    for candidate in batch:
        judge.evaluate(task, candidate)
    start = time.perf_counter()
    profiles = judge.profile(task, batch)  # not verified again
    profile_s = (time.perf_counter() - start) / len(batch)
    tiers = {f"{one.tier} tier" if isinstance(one, Profile) else one.kind for one in profiles}
    what = f"profiling, each of {len(profiles)} ({' and '.join(sorted(tiers))})"
    table.add(what, f"{profile_s:.2f} s", "at most 3 s")

    if arguments.device == "cuda":
        say("building a torch extension ...")
        theirs_s = torch_extension(task.primary.sizes["x_0"], task.primary.sizes["x_1"])
        what = "the example as a torch extension (load_inline), built and timed"
        table.add(what, f"{theirs_s:.1f} s")
        table.add("ratio to the judge's", f"{theirs_s / ours_s:.1f}", "at least 20")
    judge.close()
    device.close()
    publish(table.lines, arguments.out)


if __name__ == "__main__":
    main()
