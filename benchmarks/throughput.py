"""What one verdict costs: against a torch extension, in a batch of 64, and with profiling.

python benchmarks/throughput.py [--stages] [--out results/throughput.md]

With --stages, a second batch of the same kernels is judged under Python's profiler: a row for each stage
says how many seconds of the batch it took. Stages within others are named after them ("verified: recorded").
"""

import argparse
import cProfile
import os
import pstats
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TORCH_CUDA_ARCH_LIST", "9.0a")

import torch
from publish import keep, publish
from torch.utils.cpp_extension import load_inline

from kernelblaster.api import DeviceJudge, open_device
from kernelblaster.judge.clock import MeasuredClock, ModelledClock
from kernelblaster.judge.host_check import check_host_code
from kernelblaster.judge.order_check import OrderCheck
from kernelblaster.judge.prepare import TaskPreparer
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
STAGES = {
    "tasks prepared": TaskPreparer.prepare,
    "verified": Verifier.verify,
    "verified: recorded": Verifier._record,
    "verified: values drawn, called, compared": Verifier._check,
    "timed": MeasuredClock.time,
    "time modelled": ModelledClock.time,
    "host code followed": check_host_code,
    "memory order checked": OrderCheck.look,
}


def seconds_by_stage(profiler: cProfile.Profile) -> dict[str, float]:
    """What each stage took in all its calls, from a profile; stages that were not reached are left out."""
    taken = {
        (file, line): cumulative
        for (file, line, _), (_, _, _, cumulative, _) in pstats.Stats(profiler).stats.items()  # type: ignore[attr-defined]
    }
    places = {
        name: (stage.__code__.co_filename, stage.__code__.co_firstlineno) for name, stage in STAGES.items()
    }
    return {name: taken[place] for name, place in places.items() if place in taken}


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
    parser.add_argument("--stages", action="store_true", help="judge a second batch under a profiler")
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
    start = time.perf_counter()
    evaluations = list(judge.evaluate_many(jobs))
    batch_s = time.perf_counter() - start
    correct = sum(e.outcome.kind in CORRECT for e in evaluations)
    tasks = len({t.name for t, _ in jobs})
    table.add(f"{len(jobs)} candidates of {tasks} tasks, none cached", f"{batch_s:.1f} s")
    table.add("candidates a minute", f"{len(jobs) * 60 / batch_s:.0f}", "at least 100")
    table.add("of these correct", f"{correct} of {len(jobs)}")

    if arguments.stages:
        again = [(t, fresh(c, n)) for n, (t, c) in enumerate(jobs)]
        profiler = cProfile.Profile()
        profiler.enable()
        list(judge.evaluate_many(again))
        profiler.disable()
        for stage, seconds in seconds_by_stage(profiler).items():
            table.add(f"the batch again, tasks known: {stage}", f"{seconds:.1f} s")

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
