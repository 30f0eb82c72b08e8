"""What one verdict costs: against a torch extension, in a batch of 64, and with profiling.

python benchmarks/throughput.py [--out results/throughput.md]
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ["KERNELBLASTER_CACHE"] = tempfile.mkdtemp(prefix="kernelblaster-bench-")
os.environ.setdefault("TORCH_CUDA_ARCH_LIST", "9.0a")

import torch
from publish import publish
from torch.utils.cpp_extension import load_inline

from kernelblaster.api import DeviceJudge, open_device
from kernelblaster.records import Candidate
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    corpus = Corpus()
    task = corpus.task("core/level1/softmax")
    example = Candidate(source=EXAMPLE.read_text())
    device = open_device("cuda")
    judge = DeviceJudge(device)
    judge.evaluate(task, fresh(example, 0))
    ours = []
    for number in range(5):
        start = time.perf_counter()
        evaluation = judge.evaluate(task, fresh(example, number))
        ours.append(time.perf_counter() - start)
        assert evaluation.outcome.kind in CORRECT, evaluation.outcome
    ours_s = sorted(ours)[2]
    say(f"the judge: {ours_s:.2f} s; a batch of 64 ...")
    honest = sorted((ROOT / "tests" / "exploits" / "honest").glob("*.cu"))
    honest = [f for f in honest if "slow" not in f.name]
    jobs = [corpus.read(honest[n % len(honest)]) for n in range(64)]
    jobs = [(t, fresh(c, n)) for n, (t, c) in enumerate(jobs)]
    start = time.perf_counter()
    evaluations = list(judge.evaluate_many(jobs))
    batch_s = time.perf_counter() - start
    correct = sum(e.outcome.kind in CORRECT for e in evaluations)

    say(f"batch: {batch_s:.1f} s, {correct} correct; profiling ...")
    batch = [fresh(example, n) for n in range(8)]
    for candidate in batch:
        judge.evaluate(task, candidate)
    start = time.perf_counter()
    plain = [judge.check(task, candidate) for candidate in batch]
    verify_s = time.perf_counter() - start
    start = time.perf_counter()
    profiles = judge.profile(task, batch)
    profile_s = (time.perf_counter() - start - verify_s) / len(batch)
    say(f"profiling: {profile_s:.2f} s each; building a torch extension ...")
    theirs_s = torch_extension(task.primary.sizes["x_0"], task.primary.sizes["x_1"])
    judge.close()
    device.close()
    tasks = len({t.name for t, _ in jobs})
    rows = [
        ("the example as a torch extension (load_inline), built and timed", f"{theirs_s:.1f} s", ""),
        (
            "the same source through the judge: compiled, verified, timed (median of 5)",
            f"{ours_s:.2f} s",
            "at most 2.2 s",
        ),
        ("ratio", f"{theirs_s / ours_s:.1f}", "at least 20"),
        (f"64 candidates of {tasks} tasks, none cached", f"{batch_s:.1f} s", ""),
        ("candidates a minute", f"{64 * 60 / batch_s:.0f}", "at least 100"),
        ("of these correct", f"{correct} of 64", ""),
        (
            f"profiling, each of {len(profiles)} ({profiles[0].tier} tier)",
            f"{profile_s:.2f} s",
            "at most 3 s",
        ),
    ]
    lines = [f"# What a verdict costs on {device.name}, {os.cpu_count()} cores", ""]
    lines += ["| what | figure | wanted |", "|---|---|---|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    assert len(plain) == len(profiles)
    publish(lines, arguments.out)


if __name__ == "__main__":
    main()
