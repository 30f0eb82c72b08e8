"""Reads a GPU's clock, temperature and processes through NVIDIA's management library (NVML); never sets
anything."""

import contextlib
import ctypes
from dataclasses import dataclass
from functools import cache

SM_CLOCK = 1
CORE_SENSOR = 0
MOST_PROCESSES = 64
SLOWED = {
    0x0000000000000008: "hardware slowdown",
    0x0000000000000040: "hardware thermal slowdown",
    0x0000000000000020: "software thermal slowdown",
    0x0000000000000080: "power brake",
}
"""Reasons for a low clock that no idle or capped GPU has, by their bits (nvmlClocksEventReason)."""


@dataclass(frozen=True)
class GpuReading:
    """The present state of one GPU, whose `name` is the driver's. `clock_mhz` is its SM clock rate,
    `most_mhz` the highest rate that it can have, `temperature_c` its temperature in degrees Celsius. `slowed`
    are the reasons why it is slowed down, in words; empty if it is not. `processes` is how many processes
    compute on it. None where a value cannot be read."""

    name: str
    clock_mhz: float | None
    most_mhz: float | None
    temperature_c: float | None
    slowed: tuple[str, ...]
    processes: int | None


class _Process(ctypes.Structure):
    """The struct nvmlProcessInfo_t as ctypes lays it out: a process that computes on the GPU, as
    nvmlDeviceGetComputeRunningProcesses_v3 lists it."""

    _fields_ = [
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


@cache
def _library() -> ctypes.CDLL | None:
    """NVIDIA's management library, initialized; None if it is not installed or fails."""
    with contextlib.suppress(OSError):
        library = ctypes.CDLL("libnvidia-ml.so.1")
        if library.nvmlInit_v2() == 0:
            return library
    return None


def sm_clock_mhz(uuid: str) -> float | None:
    """The present SM clock rate in MHz of the GPU with this UUID (`GPU-...`); None if NVIDIA's management
    library cannot tell it."""
    library = _library()
    handle = _handle(library, uuid)
    return None if library is None or handle is None else _number(library, "ClockInfo", handle, SM_CLOCK)


def reading(uuid: str) -> GpuReading | None:
    """The present state of the GPU with this UUID (`GPU-...`); None where NVML is missing or does not know
    it."""
    library = _library()
    handle = _handle(library, uuid)
    return None if library is None or handle is None else _reading(library, handle)


def all_readings() -> list[GpuReading]:
    """The present state of every GPU of this machine, visible to this process or not; empty where NVML is
    missing."""
    library, count = _library(), ctypes.c_uint()
    if library is None or library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
        return []
    readings = []
    for number in range(count.value):
        handle = ctypes.c_void_p()
        if library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(number), ctypes.byref(handle)) == 0:
            readings.append(_reading(library, handle))
    return readings


def _reading(library: ctypes.CDLL, handle: ctypes.c_void_p) -> GpuReading:
    """Reads the present state (clock, temperature, throttling, processes) of the GPU with this NVML
    handle."""
    name = ctypes.create_string_buffer(96)
    library.nvmlDeviceGetName(handle, name, ctypes.c_uint(len(name)))
    return GpuReading(
        name=name.value.decode(errors="replace"),
        clock_mhz=_number(library, "ClockInfo", handle, SM_CLOCK),
        most_mhz=_number(library, "MaxClockInfo", handle, SM_CLOCK),
        temperature_c=_number(library, "Temperature", handle, CORE_SENSOR),
        slowed=_slowed(library, handle),
        processes=_processes(library, handle),
    )


def visible_uuid() -> str | None:
    """The UUID (`GPU-...`) of the first GPU that CUDA shows to this process, without creating a context on
    it; None if there is none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, uuid = ctypes.c_int(), (ctypes.c_ubyte * 16)()
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0):
        return None
    if driver.cuDeviceGetUuid_v2(uuid, device):
        return None
    digits = bytes(uuid).hex()
    return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _handle(library: ctypes.CDLL | None, uuid: str) -> ctypes.c_void_p | None:
    """NVML's handle of the GPU with this UUID, with or without the prefix `GPU-`; None if NVML is missing or
    does not know it."""
    handle = ctypes.c_void_p()
    name = uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
    if library is None or library.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle)) != 0:
        return None
    return handle


def _number(library: ctypes.CDLL, what: str, handle: ctypes.c_void_p, which: int) -> float | None:
    """The number that NVML's function nvmlDeviceGet`what` gives for a GPU and the selector `which`; None if
    it fails."""
    value = ctypes.c_uint()
    asked = getattr(library, f"nvmlDeviceGet{what}")
    return float(value.value) if asked(handle, ctypes.c_int(which), ctypes.byref(value)) == 0 else None


def _slowed(library: ctypes.CDLL, handle: ctypes.c_void_p) -> tuple[str, ...]:
    """Why the clock of the GPU with this NVML handle is throttled now, in words, one entry for each reason in
    SLOWED; empty if it is not or NVML does not say."""
    bits = ctypes.c_ulonglong()
    if library.nvmlDeviceGetCurrentClocksThrottleReasons(handle, ctypes.byref(bits)) != 0:
        return ()
    return tuple(words for bit, words in SLOWED.items() if bits.value & bit)


def _processes(library: ctypes.CDLL, handle: ctypes.c_void_p) -> int | None:
    """How many processes have a compute context on the GPU with this NVML handle; None where NVML does not
    say."""
    count = ctypes.c_uint(MOST_PROCESSES)
    known = (_Process * MOST_PROCESSES)()
    asked = library.nvmlDeviceGetComputeRunningProcesses_v3
    return int(count.value) if asked(handle, ctypes.byref(count), known) == 0 else None
