"""Opening devices and judges: where candidates run, and who judges them."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Literal

from kernelblaster.devices.cuda import CudaDevice, why_no_gpu
from kernelblaster.devices.device import Device
from kernelblaster.devices.emulated import DEFAULT_GPU, EmulatedDevice
from kernelblaster.devices.specs import gpu_named
from kernelblaster.errors import DeviceLost, KernelBlasterError
from kernelblaster.judge.judge import DeviceJudge, EvaluationOptions

DeviceKind = Literal["auto", "cuda", "emulated"]


def kind_here(kind: DeviceKind, gpu: str | None = None) -> Literal["cuda", "emulated"]:
    """Which of the two `auto` means here: the GPU where there is one; naming a `gpu` to stand for means
    the emulated device."""
    if gpu is not None:
        gpu_named(gpu)  # a name that nobody knows is told before anything is begun
    if kind == "cuda" and gpu is not None:
        raise KernelBlasterError(f"--gpu {gpu} says what the emulated device stands for; leave it out.")
    if kind == "cuda" or (kind == "auto" and gpu is None and why_no_gpu() is None):
        return "cuda"
    return "emulated"


def open_device(kind: DeviceKind = "auto", gpu: str | None = None) -> Device:
    """The GPU of this machine, or the emulated device."""
    return CudaDevice() if kind_here(kind, gpu) == "cuda" else EmulatedDevice(gpu or DEFAULT_GPU)


@contextmanager
def open_judge(kind: DeviceKind = "auto", gpu: str | None = None, **options: object) -> Iterator[DeviceJudge]:
    """A judge on a device of its own; options are those of `Options`. A GPU that is lost while it is in
    use raises DeviceLost."""
    with (
        _loss_told(),
        closing(open_device(kind, gpu)) as device,
        closing(DeviceJudge(device, EvaluationOptions(**options))) as judge,  # type: ignore[arg-type]
    ):
        yield judge


@contextmanager
def open_searching(
    kind: DeviceKind = "auto", gpu: str | None = None, **options: object
) -> Iterator[DeviceJudge]:
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
