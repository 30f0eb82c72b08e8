"""Opens devices and judges by kind: a GPU of this machine ("cuda"), or the emulated device ("emulated")."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Literal

from kernelblaster.devices.cuda import CudaDevice, why_no_gpu
from kernelblaster.devices.device import Device
from kernelblaster.devices.emulated import DEFAULT_GPU, EmulatedDevice
from kernelblaster.devices.specs import gpu_named
from kernelblaster.errors import DeviceLost, KernelBlasterError
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.judge.options import EvaluationOptions

DeviceKind = Literal["auto", "cuda", "emulated"]


def kind_here(kind: DeviceKind, gpu: str | None = None) -> Literal["cuda", "emulated"]:
    """Returns the kind of device that is meant: "cuda" or "emulated". "auto" means "cuda" if this machine has
    a usable GPU and `gpu` is None, else "emulated". `gpu` names the GPU that the emulated device stands for,
    such as "h200". Raises KernelBlasterError if `gpu` is unknown, or is given with "cuda"."""
    if gpu is not None:
        gpu_named(gpu)  # an unknown name is an error before anything is begun
    if kind == "cuda" and gpu is not None:
        raise KernelBlasterError(f"--gpu {gpu} says what the emulated device stands for; leave it out.")
    if kind == "cuda" or (kind == "auto" and gpu is None and why_no_gpu() is None):
        return "cuda"
    return "emulated"


def open_device(kind: DeviceKind = "auto", gpu: str | None = None) -> Device:
    """Opens and returns a device: the GPU of this machine ("cuda"), or the emulated device that stands for
    `gpu` (None: DEFAULT_GPU). "auto" means "cuda" if there is a usable GPU and `gpu` is None, else
    "emulated". The caller closes it. Raises NoDevice if "cuda" is asked for and there is no usable GPU."""
    return CudaDevice() if kind_here(kind, gpu) == "cuda" else EmulatedDevice(gpu or DEFAULT_GPU)


@contextmanager
def open_judge(kind: DeviceKind = "auto", gpu: str | None = None, **options: object) -> Iterator[DeviceJudge]:
    """A context that gives a judge (which compiles, verifies and times candidates) with a device of its own;
    both are closed at the end. The device is the GPU of this machine (`kind` "cuda"), or the emulated device
    that stands for `gpu`; "auto" means "cuda" if there is a usable GPU and `gpu` is None, else "emulated".
    `options` are fields of `EvaluationOptions` with their values. Raises DeviceLost if the GPU fails while
    the context is open."""
    with (
        _raise_device_lost(),
        closing(open_device(kind, gpu)) as device,
        closing(DeviceJudge(device, EvaluationOptions(**options))) as judge,  # type: ignore[arg-type]
    ):
        yield judge


@contextmanager
def open_searching(
    kind: DeviceKind = "auto", gpu: str | None = None, **options: object
) -> Iterator[DeviceJudge]:
    """A context that gives a judge for a search, with a device of its own; both are closed at the end. The
    device is the GPU of this machine (`kind` "cuda"), or the emulated device that stands for `gpu` (None:
    DEFAULT_GPU); "auto" means "cuda" if there is a usable GPU and `gpu` is None, else "emulated". `options`
    are fields of `EvaluationOptions` with their values. The judge's evaluations include a profile on the
    emulated device, where it costs nothing. On a GPU they do not: the search asks for the profiles that it
    needs."""
    with open_judge(kind, gpu, **options) as judge:
        judge.options = replace(judge.options, profile=judge.device.modelled)
        yield judge


@contextmanager
def _raise_device_lost() -> Iterator[None]:
    """A context that turns PyTorch's "CUDA error" exceptions into DeviceLost, since they say nothing about a
    candidate. Other errors pass through."""
    try:
        yield
    except RuntimeError as error:
        if "CUDA error" not in str(error):
            raise
        raise DeviceLost(f"the GPU failed: {str(error).splitlines()[0]}.") from error
