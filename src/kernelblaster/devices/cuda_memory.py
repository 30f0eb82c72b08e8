"""Device memory that other processes can map: the arena that judge and candidates share."""

import ctypes

import torch

from kernelblaster.errors import DeviceLost, KernelBlasterError

HANDLE_BYTES = 64
# Memory of another size is mapped by other processes in small pages: the same kernel then took up
# to 1.9 times as long there as in the process that allocated it (benchmarks/placement.py).
PAGE_BYTES = 2 << 20


class _Handle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_char * HANDLE_BYTES)]


class SharedMemory:
    """One allocation made by the CUDA runtime itself (not by torch), with its process-wide handle."""

    def __init__(self, runtime: ctypes.CDLL, size: int) -> None:
        self._runtime = runtime
        self.size = size = -(-size // PAGE_BYTES) * PAGE_BYTES
        self._pointer = ctypes.c_void_p()
        status = runtime.cudaMalloc(ctypes.byref(self._pointer), ctypes.c_size_t(size))
        if status != 0:
            runtime.cudaGetLastError()
            free = torch.cuda.mem_get_info()[0]
            raise KernelBlasterError(
                f"the task does not fit: {size / 1e9:.2f} GB of device memory are needed for its "
                f"tensors, {free / 1e9:.2f} GB are free."
            )
        handle = _Handle()
        runtime.cudaIpcGetMemHandle.argtypes = [ctypes.POINTER(_Handle), ctypes.c_void_p]
        if runtime.cudaIpcGetMemHandle(ctypes.byref(handle), self._pointer) != 0:
            raise DeviceLost("this system does not let processes share device memory (CUDA IPC).")
        self.handle = bytes(ctypes.string_at(ctypes.addressof(handle), HANDLE_BYTES)).hex()

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {
            "shape": (self.size,),
            "typestr": "|u1",
            "data": (self._pointer.value, False),
            "version": 3,
        }

    def tensor(self) -> torch.Tensor:
        return torch.as_tensor(self, device="cuda")

    def free(self) -> None:
        self._runtime.cudaFree(self._pointer)
