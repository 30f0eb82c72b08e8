"""Reads the GPU's clock rate through NVIDIA's management library (NVML); never sets it."""

import contextlib
import ctypes
from functools import cache

SM_CLOCK = 1


@cache
def _library() -> ctypes.CDLL | None:
    """NVIDIA's management library, initialized; None if it is not installed or fails."""
    with contextlib.suppress(OSError):
        library = ctypes.CDLL("libnvidia-ml.so.1")
        if library.nvmlInit_v2() == 0:
            return library
    return None


def sm_clock_mhz(uuid: str) -> float | None:
    """The present SM clock rate in MHz of the GPU with this UUID (`GPU-...`); None where it cannot be
    read."""
    library = _library()
    if library is None:
        return None
    handle, rate = ctypes.c_void_p(), ctypes.c_uint()
    name = uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
    if library.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle)) != 0:
        return None
    if library.nvmlDeviceGetClockInfo(handle, ctypes.c_int(SM_CLOCK), ctypes.byref(rate)) != 0:
        return None
    return float(rate.value)
