"""Checks what this machine can do: compiler, GPU, sandbox, profiler, sanitizer, cache."""

import shutil
from pathlib import Path

from kernelblaster.errors import KernelBlasterError
from kernelblaster.records.finding import Finding
from kernelblaster.settings import settings


def examine() -> list[Finding]:
    """Checks this machine. Returns for each tool, device or folder that the program needs or can use whether
    it works ("ok", "limited" or "missing"), a sentence on it, and advice. Starts a worker process on the GPU
    if there is one, so it takes seconds."""
    gpu = _gpu()
    return [
        _compiler(),
        _torch(),
        _sandbox(),
        _tasks(),
        *gpu,
        _default(gpu),
        _profiler(),
        _sanitizer(),
        _cache(),
    ]


def _compiler() -> Finding:
    from kernelblaster.devices.toolchain import toolchain

    try:
        tools = toolchain()
    except KernelBlasterError as error:
        return Finding("compiler", "missing", str(error), needed=True)
    return Finding(
        "compiler", "ok", f"nvcc {tools.version} ({tools.nvcc}), {tools.host_compiler}", needed=True
    )


def _torch() -> Finding:
    import torch

    kind = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU build"
    return Finding("PyTorch", "ok", f"{torch.__version__} ({kind})", needed=True)


def _gpu() -> list[Finding]:
    """The GPU and its rates: "ok", "missing" if one is there but cannot be used, "limited" if there is none.
    One finding in a list."""
    from kernelblaster.confinement.confine import lacking
    from kernelblaster.confinement.gpu_probe import confined_gpu_problem
    from kernelblaster.devices.cuda import CudaDevice, why_no_gpu

    reason = why_no_gpu()
    if reason:
        return [Finding("GPU", "limited", reason, "Without one, times are modelled instead of measured.")]
    try:
        device = CudaDevice(spares=1)
    except KernelBlasterError as error:
        return [Finding("GPU", "missing", str(error), needed=True)]
    try:
        spec = device.spec
        detail = (
            f"{device.name}, {spec.architecture}, {spec.multiprocessors} SMs, "
            f"{spec.dram_gb_s:g} GB/s, {spec.l2_mb:.0f} MB L2"
        )
        unusable = "" if lacking() else confined_gpu_problem()
        if unusable:
            advice = (
                "Only `kernelblaster --trust-tasks COMMAND` can use it. A driver this new is not known yet."
            )
            return [
                Finding(
                    "GPU", "missing", f"{detail}; not usable by confined commands: {unusable}", advice, True
                )
            ]
        listed = "" if "not listed" not in spec.source else "its rates are not listed: floors are loose"
        return [Finding("GPU", "ok", detail, listed, needed=True)]
    finally:
        device.close()


def _sandbox() -> Finding:
    """Whether the host code of candidates can be confined on this system: "missing" if not (candidates are
    then not run), "limited" if the user has allowed that with --unsafe."""
    from kernelblaster.devices.recorder import Recorder

    recorder = Recorder()
    try:
        gaps = recorder.gaps()
    except KernelBlasterError as error:
        return Finding("sandbox", "missing", str(error), needed=True)
    finally:
        recorder.close()
    if gaps and settings().unsafe:
        return Finding("sandbox", "limited", f"{gaps}.", "Candidates are run all the same, as your own code.")
    if gaps:
        advice = "Candidates are not run without it, unless you trust them: kernelblaster --unsafe COMMAND."
        return Finding("sandbox", "missing", f"{gaps}.", advice, needed=True)
    return Finding("sandbox", "ok", "host code of candidates has no files, programs, threads, network or GPU")


def _tasks() -> Finding:
    """Whether code of tasks can be confined on this system: "limited" if not, or not in all respects;
    tasks of the shipped suites work either way."""
    from kernelblaster.confinement.confine import lacking, limits

    missing = lacking()
    if missing:
        advice = "Only shipped tasks are run, unless you trust others: kernelblaster --trust-tasks COMMAND."
        return Finding("tasks", "limited", f"cannot be confined: {missing}.", advice)
    if settings().trusted:
        return Finding("tasks", "limited", "are run as your own code (KERNELBLASTER_TRUST_TASKS).")
    detail = "confined to their folder: no other files, no keys, no network, no other processes"
    return Finding("tasks", "limited" if limits() else "ok", detail, limits())


def _default(gpu: list[Finding]) -> Finding:
    """A finding on the device that commands use if none is named, given the result of `_gpu`: the GPU, else
    the emulator, which runs a candidate's PTX on the CPU."""
    from kernelblaster.devices.emulated import DEFAULT_GPU
    from kernelblaster.devices.specs import gpu_specs

    if gpu[0].state != "limited":
        return Finding("device", gpu[0].state, "cuda, the GPU; `--device emulated` for the PTX machine")
    title = gpu_specs()[DEFAULT_GPU].title
    detail = f"emulated: the PTX machine, standing for an {title} (others: --gpu), times modelled"
    return Finding("device", "ok", detail, needed=True)


def _profiler() -> Finding:
    tool = settings().ncu
    if tool is None:
        advice = "Launch times and ptxas resources are used instead. NCU comes with the CUDA toolkit."
        return Finding("profiler", "limited", "ncu was not found: activity tier", advice)
    return Finding("profiler", "ok", f"{tool}: NCU tier where counters are permitted")


def _sanitizer() -> Finding:
    tool = settings().sanitizer
    if tool is None:
        advice = "Only `evaluate --sanitize` needs it. It comes with the CUDA toolkit."
        return Finding("sanitizer", "limited", "compute-sanitizer was not found", advice)
    return Finding("sanitizer", "ok", tool)


def _cache() -> Finding:
    folder = settings().cache
    existing = next(p for p in (folder, *folder.parents) if p.exists())
    free = shutil.disk_usage(existing).free
    detail = f"{folder}, {free / 1e9:.1f} GB free"
    if not _writable(existing):
        return Finding("cache", "missing", f"{folder} cannot be written", "Set KERNELBLASTER_CACHE.", True)
    if free < 200e6:
        return Finding("cache", "limited", detail, "Little space: set KERNELBLASTER_CACHE elsewhere.")
    return Finding("cache", "ok", detail)


def _writable(folder: Path) -> bool:
    import os

    return os.access(folder, os.W_OK)
