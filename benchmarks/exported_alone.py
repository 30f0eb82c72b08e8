"""Runs exported files where KernelBlaster is not: prints a JSON object for each folder. Needs torch, nvcc.

    python benchmarks/exported_alone.py FOLDER ...

A folder has kernel.cu, kernelbench.py and module.py, all exported from one kernel. All are compiled; on
a GPU both modules run with and without gradients enabled, and must be as near to the float64 result as the
original is, within five times. Importing `kernelblaster` is an error here.
"""

import importlib.util
import json
import subprocess
import sys
import tempfile
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

sys.modules["kernelblaster"] = None  # type: ignore[assignment]
CALLS = 20


def loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"alone_{path.parent.name}_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compiled(folder: Path) -> str:
    """The first error of the build command that kernel.cu names in its head; "yes" if there is none."""
    lines = (folder / "kernel.cu").read_text().splitlines()
    command = next(line for line in lines if line.startswith("// build: ")).removeprefix("// build: ").split()
    with tempfile.TemporaryDirectory() as scratch:
        command += [str(folder / "kernel.cu"), "-o", f"{scratch}/kernel.so"]
        done = subprocess.run(command, capture_output=True, text=True)
    said = done.stderr.strip().splitlines()
    return "yes" if done.returncode == 0 else next((line for line in said if "error" in line), "failed")


def tensors(result: Any) -> list[torch.Tensor]:
    return [t for t in torch.utils._pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]


def error(result: Any, truth: Any) -> float:
    """The largest relative RMS distance of any output from the truth."""
    distances = [0.0]
    for got, exact in zip(tensors(result), tensors(truth), strict=True):
        scale = float(exact.double().norm()) or 1.0
        distances.append(float((got.double() - exact.double()).norm()) / scale)
    return max(distances)


def microseconds(module: Any, inputs: list[Any]) -> float:
    """The median time of a call, by events."""
    times = []
    for _ in range(CALLS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        module(*inputs)
        end.record()
        torch.cuda.synchronize()
        times.append(1000 * start.elapsed_time(end))
    return sorted(times)[CALLS // 2]


def run(exported: Any, name: str) -> dict[str, object]:
    """Both ways to call the exported module on the GPU: times in microseconds, and whether it is right."""
    arguments = exported.get_init_inputs()
    torch.manual_seed(0)
    original = exported.Model(*arguments).cuda()
    module = getattr(exported, name)(*arguments).cuda()
    module.load_state_dict(original.state_dict())
    inputs = [v.cuda() if isinstance(v, torch.Tensor) else v for v in exported.get_inputs()]
    wide = [v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for v in inputs]
    with torch.no_grad():
        own = original(*inputs)
        truth = original.double()(*wide)
    found: dict[str, object] = {}
    for title, context in (("no_grad", torch.no_grad()), ("gradients", nullcontext())):
        with context, warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            result = module(*inputs)
            found[title] = microseconds(module, inputs)
        off, theirs = error(result, truth), error(own, truth)
        found[f"{title} right"] = off <= 5 * theirs + 1e-6
        found[f"{title} by the kernel"] = not any("original module runs" in str(w.message) for w in said)
    return found


def main() -> None:
    for folder in map(Path, sys.argv[1:]):
        found: dict[str, Any] = {"folder": folder.name, "cu": compiled(folder)}
        for stem, name in (("kernelbench", "ModelNew"), ("module", "OptimizedModel")):
            exported = loaded(folder / f"{stem}.py")
            found[stem] = {"compiled": exported.KERNEL.problem or "yes"}
            if torch.cuda.is_available():
                found[stem] |= run(exported, name)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
