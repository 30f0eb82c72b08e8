"""The public interface: what `import kernelblaster` offers, and what the commands call."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

from kernelblaster.devices.cuda import CudaDevice, why_no_gpu
from kernelblaster.devices.device import Device
from kernelblaster.devices.emulated import DEFAULT_GPU, EmulatedDevice
from kernelblaster.errors import DeviceLost, KernelBlasterError
from kernelblaster.judge.judge import Checked, Judge, Options
from kernelblaster.records import Candidate, Evaluation, Profile, Task
from kernelblaster.records.outcome import Outcome
from kernelblaster.tasks.catalog import load_task
from kernelblaster.tasks.cuda_prepare import fitted

DeviceKind = Literal["auto", "cuda", "emulated"]


def open_device(kind: DeviceKind = "auto", gpu: str | None = None) -> Device:
    """The GPU of this machine, or the emulated device. `auto` is the GPU where there is one; naming a
    `gpu` to stand for means the emulated device."""
    if kind == "cuda" and gpu is not None:
        raise KernelBlasterError(f"--gpu {gpu} says what the emulated device stands for; leave it out.")
    if kind == "cuda" or (kind == "auto" and gpu is None and why_no_gpu() is None):
        return CudaDevice()
    return EmulatedDevice(gpu or DEFAULT_GPU)


@contextmanager
def open_judge(kind: DeviceKind = "auto", gpu: str | None = None, **options: object) -> Iterator[Judge]:
    """A judge on a device of its own; options are those of `Options`. A GPU that is lost while it is in
    use raises DeviceLost."""
    with (
        _loss_told(),
        closing(open_device(kind, gpu)) as device,
        closing(Judge(device, Options(**options))) as judge,  # type: ignore[arg-type]
    ):
        yield judge


@contextmanager
def open_searching(kind: DeviceKind = "auto", gpu: str | None = None, **options: object) -> Iterator[Judge]:
    """A judge for `optimize`: profiles come with the verdicts where they cost nothing, and are made where
    a search asks for them otherwise."""
    with open_judge(kind, gpu, **options) as judge:
        judge.options = replace(judge.options, profile=judge.device.modelled)
        yield judge


@contextmanager
def _loss_told() -> Iterator[None]:
    """What PyTorch says of a GPU that is gone says nothing about a candidate."""
    try:
        yield
    except RuntimeError as error:
        if "CUDA error" not in str(error):
            raise
        raise DeviceLost(f"the GPU failed: {str(error).splitlines()[0]}.") from error


def evaluate(
    task: str | Task,
    candidate: str | Path | Candidate,
    device: DeviceKind = "auto",
    gpu: str | None = None,
    **options: object,
) -> Evaluation:
    """Judge one candidate. Options are those of `Options`."""
    with open_judge(device, gpu, **options) as judge:
        return judge.evaluate(*_resolve(task, candidate))


def profile(
    task: str | Task,
    candidate: str | Path | Candidate,
    device: DeviceKind = "auto",
    gpu: str | None = None,
) -> Profile | Outcome:
    """Profile one candidate; one that fails verification gives its outcome instead."""
    loaded, source = _resolve(task, candidate)
    with open_judge(device, gpu) as judge:
        return judge.profile(loaded, [source])[0]


def emulate(task: str | Task, candidate: str | Path | Candidate, gpu: str = DEFAULT_GPU) -> Checked:
    """Check one candidate on the PTX machine: right at a small size, and what it does there."""
    with open_judge("emulated", gpu) as judge:
        return judge.check(*_resolve(task, candidate))


def _resolve(task: str | Task, candidate: str | Path | Candidate) -> tuple[Task, Candidate]:
    loaded = load_task(task) if isinstance(task, str) else task
    if isinstance(candidate, Candidate):
        return loaded, candidate
    return loaded, fitted(Candidate(source=Path(candidate).read_text(), origin=str(candidate)), loaded)
