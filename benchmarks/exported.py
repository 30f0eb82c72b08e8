"""Exports of kernels of different families, compiled and run in a process that cannot import KernelBlaster.

    python benchmarks/exported.py [--folder FOLDER] [--out results/exported.md]

For each of ten tasks, a kernel of the expert's best path is exported in all three formats; another process
(exported_alone.py) compiles them, and on a GPU runs and times them with and without `no_grad` next to the
original. Without a GPU, they are compiled only, for an H200. Exits with 1 if any fails.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from expert_kernels import PATHS, jobs_of

from kernelblaster.export.cuda_file import cuda_file
from kernelblaster.export.origin import Origin
from kernelblaster.export.python_file import python_file
from kernelblaster.records import Evaluation, Inconclusive
from kernelblaster.records.outcome import Speedup

TASKS = (
    *("level1/gelu", "level1/softmax", "level1/layer_norm", "level1/matmul_square", "level1/matmul_batched"),
    *("level1/conv2d_3x3", "level1/max_pool2d", "level1/cross_entropy", "level2/linear_gelu_scale"),
    "level1/attention",
)
ALONE = Path(__file__).with_name("exported_alone.py")
HEAD = (
    "| task | .cu | format | compiles | no_grad, us | gradients, us | right | by the kernel |",
    "|---|---|---|---|---|---|---|---|",
)


def export(name: str, folder: Path) -> None:
    """Write the kernel of one task in all formats to a folder. It was not judged: its file says so."""
    job = jobs_of(f"core/{name}", [PATHS[0]])[0]
    unknown = Inconclusive(speedup=Speedup(estimate=1.0, low=0.1, high=10.0, confidence=None))
    evaluation = Evaluation(
        task=job.task.name, candidate=job.candidate.digest, device="none", outcome=unknown, seconds=0
    )
    origin = Origin("not judged", job.candidate, evaluation, job.applied, "sm_90a")
    folder.mkdir(parents=True)
    (folder / "kernel.cu").write_text(cuda_file(job.task, origin))
    (folder / "kernelbench.py").write_text(python_file(job.task, origin, "kernelbench"))
    (folder / "module.py").write_text(python_file(job.task, origin, "module"))


def rows(found: dict[str, Any]) -> list[str]:
    """The lines of one task's table; what was not run is left empty."""
    lines = []
    for form in ("kernelbench", "module"):
        one = found[form]
        times = [f"{one[way]:.1f}" if way in one else "" for way in ("no_grad", "gradients")]
        told = [
            str(all(one[f"{way} {what}"] for way in ("no_grad", "gradients"))).lower() if times[0] else ""
            for what in ("right", "by the kernel")
        ]
        cells = [found["folder"], found["cu"], form, one["compiled"], *times, *told]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where to write the exports; else they are removed")
    parser.add_argument("--out", type=Path, help="write the table to this file too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        for name in TASKS:
            export(name, folder / name.replace("/", "-"))
        folders = [str(folder / name.replace("/", "-")) for name in TASKS]
        done = subprocess.run([sys.executable, "-I", str(ALONE), *folders], stdout=subprocess.PIPE, text=True)
    lines = [*HEAD]
    for printed in done.stdout.splitlines():
        lines += rows(json.loads(printed))
    print(*lines, sep="\n")
    whole = len(lines) == len(HEAD) + 2 * len(TASKS)
    bad = [line for line in lines[2:] if "| false" in line or line.count(" yes ") < 2]
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU: compiled only, not run"
    print(f"{len(TASKS)} kernels, {len(bad)} lines with a failure; {where}")
    if options.out:
        head = f"# Exports in a process without KernelBlaster\n\n{where}. {len(bad)} lines with a failure.\n"
        options.out.write_text("\n".join([head, *lines]) + "\n")
    sys.exit(1 if bad or not whole or done.returncode else 0)


if __name__ == "__main__":
    main()
