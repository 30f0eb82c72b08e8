"""How much device memory a judgement needs: everything but twice one input set, parameters and
outputs (and a fixed allowance for processes and cache flushing) is taken away, and it must still work.
With half a set left it cannot: that row shows that the others mean something.

    python benchmarks/memory.py [--out results/memory.md]
"""

import argparse
import tempfile
import time
from pathlib import Path

import torch
from publish import publish

from kernelblaster.api import DeviceJudge, EvaluationOptions, load_task, open_device
from kernelblaster.records import Candidate

ALLOWANCE = 2 << 30  # flush buffers, starting workers, pieces being compared
ROOT = Path(__file__).parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    source = (ROOT / "suites" / "core" / "level1" / "softmax.py").read_text()
    large = Path(tempfile.mkdtemp()) / "softmax_large.py"
    large.write_text(source.replace("batch = 8192", "batch = 32768"))
    task = load_task(str(large))
    one_set = task.primary.total_bytes(task.signature)
    device = open_device("cuda")
    start = time.perf_counter()
    judge = DeviceJudge(
        device, EvaluationOptions(progress=lambda s: print(f"{time.perf_counter() - start:6.1f} s {s}"))
    )
    candidate = Candidate(source=(ROOT / "examples" / "softmax.cu").read_text())
    device.settle()
    lines = [
        f"# Device memory on {device.name}",
        "",
        f"One set of tensors: {one_set / 1e9:.2f} GB.",
        "",
    ]
    lines += ["| left free | outcome |", "|---|---|"]
    for sets, allowance in ((2.0, 2 * ALLOWANCE), (2.0, ALLOWANCE), (0.5, 0)):
        torch.cuda.empty_cache()
        free = torch.cuda.mem_get_info()[0]
        take = int(free - sets * one_set - allowance)
        ballast = torch.empty(take, dtype=torch.uint8, device="cuda")
        try:
            outcome = judge.evaluate(task, candidate).outcome.kind
        except Exception as error:
            outcome = f"{type(error).__name__}: {error}"
        del ballast
        lines.append(f"| {sets} sets + {allowance / 1e9:.1f} GB | {outcome} |")
        if device._memory is not None:
            device._memory.free()
            device._memory = None
    judge.close()
    device.close()
    publish(lines, arguments.out)


if __name__ == "__main__":
    main()
