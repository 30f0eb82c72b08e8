"""What a call of an exported module costs on the host: processor time a call, the launch left out.

    python benchmarks/exported_call.py [--before REVISION] [--out results/exported-call.md]

Modules of several forms are exported; in place of the kernel, an empty function of a C library is called on
tensors of the CPU. What remains is what the exported file does for each call: guards, allocation of outputs,
arguments. With `--before`, the exports of that revision are timed in turns with the present ones. What
a GPU adds (the current device and stream, and the launch itself) is not in it. Needs git and g++.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
CALLS, TURNS, ROUNDS = 2000, 3, 5
EMPTY = 'extern "C" const char* exported_launch() { return nullptr; }\n'
HEAD = "import torch, torch.nn as nn\nrows, cols = 64, 256\nSMALL = {'rows': 3, 'cols': 5}\n"
FORMS = {
    "one input": ("pass", "(self, x): return x * 2 + 1", "[torch.randn(rows, cols)]", "model(x)"),
    "one input, two parameters": (
        "self.weight = nn.Parameter(torch.rand(cols)); self.bias = nn.Parameter(torch.rand(cols))",
        "(self, x): return x * self.weight + self.bias",
        "[torch.randn(rows, cols)]",
        "model(x)",
    ),
    "the same in a part of a part": (
        "self.block = nn.Sequential(nn.LayerNorm(cols))",
        "(self, x): return self.block(x) * 2",
        "[torch.randn(rows, cols)]",
        "model(x)",
    ),
    "two inputs by name": (
        "pass",
        "(self, x, *, mask=None): return x * mask",
        "{'x': torch.randn(rows, cols), 'mask': torch.randn(rows, cols)}",
        "model(x=x, mask=x)",
    ),
    "an optional number left out": (
        "pass",
        "(self, x, scale=2.0): return x * scale + 1",
        "[torch.randn(rows, cols)]",
        "model(x)",
    ),
    "six inputs, one mode": (
        "self.drop = nn.Dropout(0.5); self.eval()",
        "(self, a, b, c, d, e, f): return self.drop(a + b + c + d + e + f)",
        "[torch.randn(rows, cols) for _ in range(6)]",
        "model(x, x, x, x, x, x)",
    ),
}


def timed(folder: Path) -> dict[str, float]:
    """Microseconds of processor time a call, for each form: the least of some rounds. By the package that
    this process imports."""
    import torch

    from kernelblaster.export.origin import Origin
    from kernelblaster.export.python_file import python_file
    from kernelblaster.records import Candidate, Evaluation, Inconclusive
    from kernelblaster.records.outcome import Speedup
    from kernelblaster.tasks.catalog import load_file

    unknown = Inconclusive(speedup=Speedup(estimate=1.0, low=0.1, high=10.0, confidence=None))
    found = {}
    torch.set_num_threads(1)
    for number, (form, (built, forward, inputs, call)) in enumerate(FORMS.items()):
        file = folder / f"form{number}.py"
        file.write_text(
            f"{HEAD}class Model(nn.Module):\n    def __init__(self, cols):\n        super().__init__()\n"
            f"        {built}\n    def forward{forward}\ndef get_inputs():\n    return {inputs}\n"
            "def get_init_inputs():\n    return [cols]\n"
        )
        task = load_file(f"form{number}", file)
        candidate = Candidate(source="// none")
        evaluation = Evaluation(task=task.name, candidate="", device="none", outcome=unknown, seconds=0)
        text = python_file(task, Origin("none", candidate, evaluation, (), "sm_90a"), "module")
        space: dict[str, object] = {}
        exec(text.replace("KERNEL.build()", ""), space)
        kernel, made = space["KERNEL"], space["OptimizedModel"]
        kernel.device_type, kernel.alignment = "cpu", 4  # type: ignore[attr-defined]
        kernel.load(folder / "empty.so")  # type: ignore[attr-defined]
        model = made(256)  # type: ignore[operator]
        again = eval(f"lambda: {call}", {"model": model, "x": torch.randn(64, 256)})
        kernel.say_once = sys.exit  # type: ignore[attr-defined]
        with torch.no_grad():
            found[form] = min(_round_us(again) for _ in range(ROUNDS))
    return found


def _round_us(call: object) -> float:
    start = time.process_time()
    for _ in range(CALLS):
        call()  # type: ignore[operator]
    return (time.process_time() - start) * 1e6 / CALLS


def package_of(revision: str | None, folder: Path) -> Path:
    """The folder with the package `kernelblaster` of a revision; None: as it is here."""
    if revision is None:
        return ROOT / "src"
    packed = subprocess.run(["git", "archive", revision, "src"], cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--before", help="a revision of this repository")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--timed", type=Path, help=argparse.SUPPRESS)  # a process that times one package
    options = parser.parse_args()
    if options.timed:
        print(json.dumps(timed(options.timed)))
        return
    from publish import publish

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "empty.cpp").write_text(EMPTY)
        command = ["g++", "-shared", "-fPIC", str(folder / "empty.cpp"), "-o", str(folder / "empty.so")]
        subprocess.run(command, check=True)
        wanted = {"now": package_of(None, folder)}
        if options.before:
            wanted = {"before": package_of(options.before, folder)} | wanted
        best: dict[str, dict[str, float]] = {which: {} for which in wanted}
        for _ in range(TURNS):
            for which, package in wanted.items():
                environment = {**os.environ, "PYTHONPATH": str(package)}
                command = [sys.executable, __file__, "--timed", str(folder)]
                done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
                for form, us in json.loads(done.stdout.splitlines()[-1]).items():
                    best[which][form] = min(us, best[which].get(form, us))
    lines = [
        "# What a call of an exported module costs on the host",
        "",
        "Processor time in us a call, with an empty function in place of the launch, on CPU tensors: the",
        f"least of {TURNS * ROUNDS} rounds of {CALLS} calls, in turns. The outputs' allocation is in it, and",
        "PyTorch's own call of a module; the current device and stream of a GPU are not.",
        *([f"Before: {options.before}."] if options.before else []),
        "",
        "| form | " + " | ".join(best) + " |",
        "|---|" + "---|" * len(best),
    ]
    lines += [f"| {form} | " + " | ".join(f"{best[w][form]:.1f}" for w in best) + " |" for form in FORMS]
    publish(lines, options.out)


if __name__ == "__main__":
    main()
