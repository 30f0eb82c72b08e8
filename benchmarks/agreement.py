"""Whether the PTX machine computes what a GPU computes: the same kernels on the same bits.

python benchmarks/agreement.py record [--out results/agreement.npz]    needs a GPU
python benchmarks/agreement.py replay [--recorded results/agreement.npz] [--out results/agreement.md]
"""

import argparse
import hashlib
import json
import os
import random
import re
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy
import torch
from variants import FOLDER, Kernel, kernel_files, read_kernel

from kernelblaster.devices.cuda import CudaDevice
from kernelblaster.devices.device import CandidateDied, CandidateHung, Device, synchronize
from kernelblaster.devices.emulated import EmulatedDevice
from kernelblaster.errors import KernelBlasterError
from kernelblaster.judge.compile import Binary, compile_candidate
from kernelblaster.judge.layout import lay_out, slot_bytes
from kernelblaster.records import Outcome, Task, Workload
from kernelblaster.tasks.reference import ModuleReference, open_reference
from kernelblaster.tasks.values import Distribution, fill, perturb
from kernelblaster.testing.corpus import ROOT, metadata

FOLDERS = (ROOT / "tests" / "candidates", ROOT / "tests" / "exploits" / "honest", FOLDER)
LARGEST_BYTES = 256 << 10
SEED = 20240131
DISTRIBUTIONS: tuple[Distribution, ...] = ("written", "large")
POISON = 0xFF
TROUBLE = (KernelBlasterError, CandidateDied, CandidateHung)

# What in a kernel's PTX leaves its last bits open, and by how many units in the last place an output may
# then differ. Without any of these, every bit must agree.
INEXACT = {
    "approximate": re.compile(r"\b(?:ex2|lg2|rcp|rsqrt|sqrt|sin|cos|tanh|div)\.(?:approx|full)"),
    "tensor core": re.compile(r"\b(?:wmma\.mma|mma\.sync)"),
    "order of atomics": re.compile(r"\b(?:atom|red)[.\w:]*?\.add(?:\.noftz)?\.(?:f16|bf16|f32|f64)"),
    "fusable": re.compile(r"\b(?:mul|add|sub)\.(?:ftz\.)?f(?:32|64)\b"),
}
ALLOWED_ULPS = {"approximate": 16, "tensor core": 1, "order of atomics": 16, "fusable": 4}


def kernels() -> list[Kernel]:
    """Every kernel whose task is a module: only these have values of their own."""
    files = [file for folder in FOLDERS for file in kernel_files(folder)]
    return [read_kernel(f) for f in files if metadata(f.read_text())["task"].endswith(".cu") is False]


@dataclass(frozen=True)
class Values:
    """The bits of a task's inputs and parameters at one workload, one set for each distribution, and
    its numbers."""

    workload: Workload
    sets: list[dict[str, numpy.ndarray]]
    scalars: list[Any]


def draw(task: Task) -> Values:
    """Made on the host, so that they do not depend on the device."""
    workload = task.small or task.smallest
    if workload.total_bytes(task.signature) > LARGEST_BYTES:
        workload = task.smallest
    reference = open_reference(task, workload, torch.device("cpu"))
    sets = [_draw(task, workload, reference, distribution) for distribution in DISTRIBUTIONS]
    return Values(workload, sets, reference.scalars)


def _draw(
    task: Task, workload: Workload, reference: ModuleReference, distribution: Distribution
) -> dict[str, numpy.ndarray]:
    tensors = {}
    for position, tensor in enumerate(task.signature.input_tensors):
        value = torch.empty(workload.shape(tensor), dtype=getattr(torch, tensor.dtype))
        pool = reference.pools[position]
        kept = "written" if float(pool.values[0]) >= 0 else distribution
        fill(value, pool, kept, workload, SEED + position)
        tensors[tensor.name] = _bits(value)
    for position, tensor in enumerate(task.signature.parameters):
        original = reference.parameters[position]
        value = torch.empty_like(original)
        perturb(value, original, SEED + 1000 + position)
        tensors[tensor.name] = _bits(value)
    return tensors


def run(device: Device, binary: Path, task: Task, values: Values) -> dict[str, numpy.ndarray]:
    """Each output as bytes, one call after the other."""
    device.arena(slot_bytes(task.signature, [values.workload]))
    layout = lay_out(device.arena(), task.signature, values.workload, random.Random(SEED))
    layout.set_guards()
    arguments = layout.arguments(task.signature, values.scalars)
    outputs: dict[str, list[numpy.ndarray]] = {t.name: [] for t in task.signature.outputs}
    runner = device.start(binary)
    try:
        for tensors in values.sets:
            for tensor in task.signature.read_tensors:
                layout.raw(tensor).copy_(torch.from_numpy(tensors[tensor.name]))
            for tensor in task.signature.outputs:
                layout.raw(tensor).fill_(POISON)
            synchronize(device.torch_device)
            report = runner.call(arguments, scratch_poison=POISON, accounting=False)
            problems = [p for p in (report.error, *report.violations, *report.findings) if p]
            if problems:
                raise KernelBlasterError("; ".join(problems))
            for tensor in task.signature.outputs:
                outputs[tensor.name].append(layout.raw(tensor).cpu().numpy().copy())
    finally:
        runner.close()
    return {name: numpy.concatenate(parts) for name, parts in outputs.items()}


def record(device: Device, chosen: list[Kernel], out: Path) -> None:
    """Each kernel twice on the device: outputs, inputs and what is needed to run them again."""
    start = time.perf_counter()
    drawn = {k.task.digest: draw(k.task) for k in chosen}
    arrays: dict[str, numpy.ndarray] = {}
    rows = []
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as compilers:
        waiting = [compilers.submit(_compile, k, device.spec.architecture) for k in chosen]
        for number, (kernel, future) in enumerate(zip(chosen, waiting, strict=True), 1):
            values = drawn[kernel.task.digest]
            row = _row(kernel, values)
            try:
                binary = _compiled(future)
                row["compiler"] = binary.compilation.compiler
                twice = replace(values, sets=values.sets * 2)
                both = run(device, binary.path, kernel.task, twice)
                outputs = {name: value[: len(value) // 2] for name, value in both.items()}
                row["repeatable"] = all(
                    numpy.array_equal(outputs[n], both[n][len(outputs[n]) :]) for n in both
                )
            except TROUBLE as error:
                row["error"] = str(error)[:300]
                print(f"{number}/{len(chosen)} {kernel.file}: {row['error']}", flush=True)
            else:
                arrays |= {f"{kernel.file}/{name}": value for name, value in outputs.items()}
                for place, tensors in enumerate(values.sets):
                    arrays |= {f"{kernel.task.digest}/{place}/{n}": v for n, v in tensors.items()}
                print(f"{number}/{len(chosen)} {kernel.file}", flush=True)
            rows.append(row)
    about = {"device": device.name, "torch": torch.__version__, "kernels": rows}
    arrays["about"] = numpy.frombuffer(json.dumps(about).encode(), dtype=numpy.uint8)
    out.parent.mkdir(parents=True, exist_ok=True)
    numpy.savez_compressed(out, **arrays)
    failed = sum("error" in row for row in rows)
    seconds = time.perf_counter() - start
    size = out.stat().st_size / 1e6
    print(f"{len(rows)} kernels, {failed} failed, {size:.1f} MB in {out}, {seconds:.0f} s")


def _row(kernel: Kernel, values: Values) -> dict[str, Any]:
    source = hashlib.sha256(kernel.candidate.source.encode()).hexdigest()
    return {
        "file": kernel.file,
        "values": kernel.task.digest,
        "source": source,
        "workload": values.workload.model_dump(),
        "scalars": values.scalars,
    }


def _compile(kernel: Kernel, architecture: str) -> Binary | Outcome:
    return compile_candidate(kernel.task, kernel.candidate, architecture)


def _compiled(future: "Future[Binary | Outcome]") -> Binary:
    built = future.result()
    if not isinstance(built, Binary):
        raise KernelBlasterError(f"{built.kind}: {getattr(built, 'reason', '')}")
    return built


def _bits(value: torch.Tensor) -> numpy.ndarray:
    return value.contiguous().reshape(-1).view(torch.uint8).numpy().copy()


@dataclass(frozen=True)
class Comparison:
    """One kernel's outputs on both devices; distances are in units in the last place."""

    elements: int
    identical: int
    worst_ulps: int
    mean_ulps: float


def compare(task: Task, mine: dict[str, numpy.ndarray], theirs: dict[str, numpy.ndarray]) -> Comparison:
    distances = []
    for tensor in task.signature.outputs:
        dtype = tensor.dtype if tensor.dtype != "bfloat16" else "int16"
        distances.append(ulps(mine[tensor.name].view(dtype), theirs[tensor.name].view(dtype)))
    apart = numpy.concatenate(distances)
    return Comparison(len(apart), int((apart == 0).sum()), int(apart.max()), float(apart.mean()))


def ulps(one: numpy.ndarray, other: numpy.ndarray) -> numpy.ndarray:
    """How many representable values apart; for whole numbers, their difference."""
    return numpy.abs(_ordered(one) - _ordered(other))


def _ordered(values: numpy.ndarray) -> numpy.ndarray:
    """Whole numbers in the order of the values: neighbours are one apart, both zeros are alike."""
    if not numpy.issubdtype(values.dtype, numpy.floating):
        return values.astype(numpy.int64)
    bits = values.view(f"int{8 * values.itemsize}").astype(numpy.int64)
    sign = -(1 << (8 * values.itemsize - 1))
    return numpy.where(bits < 0, sign - bits, bits)


def inexact(ptx: str) -> dict[str, set[str]]:
    """Kinds of inexactness that the PTX contains, each with the instructions found."""
    found = {kind: set(pattern.findall(ptx)) for kind, pattern in INEXACT.items()}
    products = {name.removeprefix("mul") for name in found["fusable"] if name.startswith("mul")}
    found["fusable"] = {name for name in found["fusable"] if name[3:] in products}
    if len(found["fusable"]) == len(products):
        found["fusable"] = set()  # products alone: there is nothing to join them with
    return {kind: names for kind, names in found.items() if names}


def allowed_ulps(kinds: dict[str, set[str]]) -> int:
    return max((ALLOWED_ULPS[kind] for kind in kinds), default=0)


def replay(device: Device, recorded: Path, out: Path | None) -> int:
    """Run what was recorded on the PTX machine and compare; the number of kernels beyond what is allowed."""
    arrays = numpy.load(recorded)
    about = json.loads(bytes(arrays["about"]))
    by_file = {k.file: k for k in kernels()}
    lines, missing, beyond, identical, bitwise, total = [], [], [], 0, 0, 0
    for row in about["kernels"]:
        kernel = by_file.get(row["file"])
        why = row.get("error", "")
        if kernel is None or hashlib.sha256(kernel.candidate.source.encode()).hexdigest() != row["source"]:
            why = "its source has changed since it was recorded; record again"
        if why or kernel is None:
            missing.append(f"- {row['file']}: {why}")
            continue
        try:
            found, kinds = _replay(device, kernel, row, arrays)
        except TROUBLE as error:
            missing.append(f"- {row['file']}: {error}")
            continue
        total += found.elements
        identical += found.identical
        bitwise += found.worst_ulps == 0
        limit = allowed_ulps(kinds)
        if found.worst_ulps > limit:
            beyond.append(row["file"])
        lines.append(_line(kernel, found, kinds, limit, row["repeatable"]))
        print(lines[-1], flush=True)
    text = "\n".join([*_head(about, len(lines), bitwise, total, identical, beyond), *lines, *_tail(missing)])
    if out:
        out.write_text(text + "\n")
    print(text)
    return len(beyond)


def _replay(
    device: Device, kernel: Kernel, row: dict[str, Any], arrays: Any
) -> tuple[Comparison, dict[str, set[str]]]:
    task = kernel.task
    workload = Workload.model_validate(row["workload"])
    sets = [
        {t.name: arrays[f"{row['values']}/{place}/{t.name}"] for t in task.signature.read_tensors}
        for place in range(len(DISTRIBUTIONS))
    ]
    built = compile_candidate(task, kernel.candidate, device.spec.architecture)
    if not isinstance(built, Binary):
        raise KernelBlasterError(f"{built.kind}: {getattr(built, 'reason', '')}")
    mine = run(device, built.path, task, Values(workload, sets, row["scalars"]))
    theirs = {t.name: arrays[f"{kernel.file}/{t.name}"] for t in task.signature.outputs}
    return compare(task, mine, theirs), inexact((built.path.parent / "candidate.ptx").read_text())


def _head(
    about: dict[str, Any], count: int, bitwise: int, total: int, identical: int, beyond: list[str]
) -> list[str]:
    compilers = sorted({r["compiler"] for r in about["kernels"] if "compiler" in r})
    limits = ", ".join(f"{kind} {ulps}" for kind, ulps in ALLOWED_ULPS.items())
    return [
        f"# The PTX machine against {about['device']}",
        "",
        f"{count} kernels on the same input bits (recorded with {', '.join(compilers)}): {bitwise} agree in "
        f"every bit, {identical} of {total} elements do ({100 * identical / max(total, 1):.2f} %). "
        f"{len(beyond)} kernels are further apart than allowed{': ' + ', '.join(beyond) if beyond else ''}.",
        "",
        f"Allowed, in units in the last place, by what the PTX contains: {limits}; none of these 0. "
        '"fusable" are multiplications and additions without a rounding mode, which the assembler may join. '
        "A kernel marked * gave two different results on the GPU itself.",
        "",
        "| kernel | task | elements | identical | worst ulps | mean ulps | allowed | inexact instructions |",
        "|---|---|---|---|---|---|---|---|",
    ]


def _line(kernel: Kernel, found: Comparison, kinds: dict[str, set[str]], limit: int, repeatable: bool) -> str:
    names = ", ".join(sorted(name for group in kinds.values() for name in group))
    cells = [
        kernel.file + ("" if repeatable else " *"),
        kernel.task.name.removeprefix(f"{ROOT}/"),
        str(found.elements),
        f"{100 * found.identical / found.elements:.2f} %",
        str(found.worst_ulps),
        f"{found.mean_ulps:.3f}",
        str(limit),
        names,
    ]
    return "| " + " | ".join(cells) + " |"


def _tail(missing: list[str]) -> list[str]:
    return ["", "Not compared:", "", *missing] if missing else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record")
    recording.add_argument("--out", type=Path, default=ROOT / "results" / "agreement.npz")
    replaying = commands.add_parser("replay")
    replaying.add_argument("--recorded", type=Path, default=ROOT / "results" / "agreement.npz")
    replaying.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    device: Device = CudaDevice() if arguments.command == "record" else EmulatedDevice()
    try:
        if arguments.command == "record":
            record(device, kernels(), arguments.out)
            return 0
        return 1 if replay(device, arguments.recorded, arguments.out) else 0
    finally:
        device.close()


if __name__ == "__main__":
    sys.exit(main())
