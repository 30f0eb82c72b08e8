"""How much memory judging a task takes at least, so that a task that does not fit is refused before anything
is begun."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

import torch

from kernelblaster.errors import BadTask
from kernelblaster.records import Task
from kernelblaster.records.signature import DTYPE_BYTES

WIDE = 8  # bytes of an element in the float64 reference
MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class MemoryNeeds:
    """The least memory in bytes that judging a task takes on the device and on the host, without what PyTorch
    uses for intermediate results."""

    device: int
    host: int


@dataclass(frozen=True)
class MemoryRoom:
    """How much memory there is, in bytes. `device` is the whole memory of the GPU; None if candidates run
    without a GPU. `host` is what this machine has available at present; None if it is not known."""

    device: int | None
    host: int | None


def needs_of(task: Task) -> MemoryNeeds:
    """The least memory that judging a task at its primary workload (the sizes that are timed) takes. On the
    device, that is all tensors once; two further copies of the parameters (one in PyTorch's module, one that
    random values are drawn around); and the outputs of PyTorch, of a candidate, and of the float64 reference.
    On the host, it is the parameters, since some modules can only be built there."""
    workload, signature = task.primary, task.signature
    parameters = sum(workload.bytes(tensor) for tensor in signature.parameters)
    outputs = sum(
        workload.elements(tensor) * (2 * DTYPE_BYTES[tensor.dtype] + (WIDE if tensor.floating else 0))
        for tensor in signature.outputs
    )
    return MemoryNeeds(workload.total_bytes(signature) + 2 * parameters + outputs, parameters)


def room_on(device: torch.device) -> MemoryRoom:
    """How much memory there is for judging on this device, and on this host."""
    total = torch.cuda.mem_get_info(device)[1] if device.type == "cuda" else None
    return MemoryRoom(total, _host_bytes())


def check_memory(task: Task, room: MemoryRoom) -> None:
    """Raises BadTask if `room` is smaller than what `needs_of` says for the task, on the device or on the
    host. The message is one sentence. Where there is no GPU, nothing is checked, because candidates run at
    small workloads, which always fit."""
    if room.device is None:
        return
    needs = needs_of(task)
    if needs.device > room.device:
        raise BadTask(
            f"{task.name}: does not fit: judging it needs at least {_gb(needs.device)} of device memory for "
            f"tensors of {_gb(task.primary.total_bytes(task.signature))}, and the device has "
            f"{_gb(room.device)}; make its sizes smaller, or use a GPU with more memory."
        )
    if room.host is not None and needs.host > room.host:
        raise BadTask(
            f"{task.name}: does not fit: its parameters take {_gb(needs.host)} of host memory, of which "
            f"{_gb(room.host)} are available; make its sizes smaller, or free some memory."
        )


def out_of_memory(task: Task) -> BadTask:
    """Returns the exception to raise when PyTorch runs out of GPU memory while `task` is judged; its message
    says how much memory judging it needs, and how much is free."""
    free = torch.cuda.mem_get_info()[0]
    return BadTask(
        f"{task.name}: does not fit: judging it needs about {_gb(needs_of(task).device)} of device memory "
        f"and what PyTorch itself uses for its intermediate results; {_gb(free)} are free."
    )


def _host_bytes() -> int | None:
    """The bytes of memory that this machine has available, or that its process group (cgroup) may use, if
    that is less; None if the system does not tell."""
    found = []
    with contextlib.suppress(OSError, ValueError, StopIteration):
        line = next(one for one in MEMINFO.read_text().splitlines() if one.startswith("MemAvailable:"))
        found.append(int(line.split()[1]) << 10)
    with contextlib.suppress(OSError, ValueError):
        found.append(int((CGROUP / "memory.max").read_text()))  # what is used is mostly cached files
    return min(found, default=None)


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
