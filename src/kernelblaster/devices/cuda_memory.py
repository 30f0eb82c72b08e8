"""GPU memory for the judge's arena (the tensors that candidates work on), which other processes can map at
addresses of their choice.

Each tensor has a slot: a physical allocation (`cuMemCreate`) with a file descriptor. The descriptors are
passed over a local socket to the players, the processes that replay launches. The judge maps all slots
contiguously and writable. A player maps each slot at the address that the call's layout gives, read-only
unless it is an output's.
"""

import contextlib
import ctypes
import os
from collections.abc import Sequence

import torch

from kernelblaster.devices.window import rounded
from kernelblaster.errors import DeviceLost, KernelBlasterError

PINNED, ON_DEVICE, FILE_DESCRIPTOR, READ_WRITE = 1, 1, 1, 3


class _Location(ctypes.Structure):
    """The struct CUmemLocation of the CUDA driver, as ctypes lays it out: where memory lies (type, device
    number)."""

    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class _Properties(ctypes.Structure):
    """The struct CUmemAllocationProp of the CUDA driver, as ctypes lays it out: the kind of memory that
    cuMemCreate allocates."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("unused", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    ]


class _Access(ctypes.Structure):
    """The struct CUmemAccessDesc of the CUDA driver, as ctypes lays it out: who may read or write mapped
    memory."""

    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


class SharedSlots:
    """GPU memory that other processes can map: one physical allocation (slot) for each of `sizes` in bytes,
    rounded up to 2 MiB pages, mapped contiguously in this process. `descriptors` are file descriptors to send
    to those processes. Raises KernelBlasterError if the sizes do not fit in device memory, DeviceLost if the
    driver refuses."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = [rounded(size) for size in sizes]
        self.descriptors: list[int] = []
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._handles: list[ctypes.c_uint64] = []
        self._base = ctypes.c_uint64()
        self._mapped = 0
        total = sum(self.sizes)
        self._check(
            self._driver.cuMemAddressReserve(
                ctypes.byref(self._base), _size(total), _size(0), ctypes.c_uint64(0), ctypes.c_uint64(0)
            ),
            "addresses for the arena",
        )
        try:
            for size in self.sizes:
                self._add(size)
            access = _Access(_Location(ON_DEVICE, 0), READ_WRITE)
            code = self._driver.cuMemSetAccess(self._base, _size(total), ctypes.byref(access), _size(1))
            self._check(code, "access to the arena")
        except BaseException:
            self.free()
            raise

    def tensor(self) -> torch.Tensor:
        """The memory of all slots (one for each size that was given), which are mapped one after the other,
        as one uint8 CUDA tensor (no copy)."""
        return torch.as_tensor(self, device="cuda")

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {
            "shape": (sum(self.sizes),),
            "typestr": "|u1",
            "data": (self._base.value, False),
            "version": 3,
        }

    def free(self) -> None:
        """Release all memory in this process; other processes that have it mapped keep it until they end."""
        if self._mapped:
            self._driver.cuMemUnmap(self._base, _size(self._mapped))
        for handle in self._handles:
            self._driver.cuMemRelease(handle)
        for descriptor in self.descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._driver.cuMemAddressFree(self._base, _size(sum(self.sizes)))
        self._handles, self.descriptors, self._mapped = [], [], 0

    def _add(self, size: int) -> None:
        """Allocate one more slot of `size` bytes, map it after the others and export its file descriptor."""
        handle = ctypes.c_uint64()
        wanted = _Properties(type=PINNED, handle_types=FILE_DESCRIPTOR, location=_Location(ON_DEVICE, 0))
        nothing = ctypes.c_uint64(0)
        code = self._driver.cuMemCreate(ctypes.byref(handle), _size(size), ctypes.byref(wanted), nothing)
        if code != 0:
            free = torch.cuda.mem_get_info()[0]
            raise KernelBlasterError(
                f"the task does not fit: {sum(self.sizes) / 1e9:.2f} GB of device memory are needed for its "
                f"tensors, {free / 1e9:.2f} GB are free."
            )
        self._handles.append(handle)
        address = ctypes.c_uint64(self._base.value + self._mapped)
        self._check(self._driver.cuMemMap(address, _size(size), _size(0), handle, nothing), "mapping memory")
        self._mapped += size
        descriptor = ctypes.c_int(-1)
        code = self._driver.cuMemExportToShareableHandle(
            ctypes.byref(descriptor), handle, ctypes.c_int(FILE_DESCRIPTOR), nothing
        )
        self._check(code, "sharing memory with other processes")
        self.descriptors.append(descriptor.value)

    def _check(self, code: int, what: str) -> None:
        """Raise DeviceLost if a driver call returned an error `code`; `what` says in the message what was
        asked of it."""
        if code != 0:
            raise DeviceLost(f"the CUDA driver refused {what} (error {code}).")


def _size(value: int) -> ctypes.c_size_t:
    return ctypes.c_size_t(value)
