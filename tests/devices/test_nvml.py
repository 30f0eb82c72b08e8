"""The state of GPUs through a library with NVML's functions, which is compiled here."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from kernelblaster.devices import nvml
from kernelblaster.fleet.health import judge_reading, look_at

LIBRARY = """
#include <cstring>
struct Process { unsigned pid; unsigned long long memory; unsigned gpu, compute; };
extern "C" {
unsigned long long reasons = 0x1; // idle
unsigned temperature = 41, processes = 0;
int nvmlInit_v2() { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) { *count = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) { *handle = &reasons; return index; }
int nvmlDeviceGetHandleByUUID(const char* uuid, void** handle) {
  *handle = &reasons;
  return std::strcmp(uuid, "GPU-1234") != 0;
}
int nvmlDeviceGetName(void*, char* name, unsigned) { std::strcpy(name, "NVIDIA Fake"); return 0; }
int nvmlDeviceGetClockInfo(void*, int kind, unsigned* mhz) { *mhz = 1000 + kind; return 0; }
int nvmlDeviceGetMaxClockInfo(void*, int kind, unsigned* mhz) { *mhz = 2000 + kind; return 0; }
int nvmlDeviceGetTemperature(void*, int sensor, unsigned* degrees) { *degrees = temperature; return sensor; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* bits) { *bits = reasons; return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, Process* known) {
  if (*count < processes) return 7;
  for (unsigned i = 0; i < processes; ++i) known[i] = {i, 1, 2, 3};
  *count = processes;
  return 0;
}
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no g++")
    folder = tmp_path_factory.mktemp("nvml")
    (folder / "nvml.cpp").write_text(LIBRARY)
    built = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", built, folder / "nvml.cpp"], check=True)
    return ctypes.CDLL(str(built))


@pytest.fixture(autouse=True)
def installed(library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "_library", lambda: library)


def set_to(library: ctypes.CDLL, reasons: int, temperature: int, processes: int) -> None:
    ctypes.c_ulonglong.in_dll(library, "reasons").value = reasons
    ctypes.c_uint.in_dll(library, "temperature").value = temperature
    ctypes.c_uint.in_dll(library, "processes").value = processes


def test_a_gpu_is_read(library: ctypes.CDLL) -> None:
    set_to(library, 0x1, 41, 0)
    found = nvml.reading("1234")
    assert found == nvml.GpuReading("NVIDIA Fake", 1001, 2001, 41, (), 0)
    assert nvml.all_readings() == [found]
    assert nvml.reading("GPU-5678") is None and nvml.sm_clock_mhz("GPU-1234") == 1001
    health = judge_reading(found)
    assert health.problems == () and str(health) == "healthy, 1001 of 2001 MHz, 41 °C"


@pytest.mark.parametrize(
    ("reasons", "temperature", "processes", "words"),
    [
        (0x4, 70, 0, ""),  # a power cap is usual under load
        (0x40, 70, 0, "hardware thermal slowdown"),
        (0x80, 70, 0, "power brake"),
        (0x0, 93, 0, "93 °C"),
        (0x0, 50, 1, "used by 1 other process"),
        (0x0, 50, 3, "used by 3 other processes"),
    ],
)
def test_what_would_be_timed_wrongly_is_unhealthy(
    library: ctypes.CDLL, reasons: int, temperature: int, processes: int, words: str
) -> None:
    set_to(library, reasons, temperature, processes)
    found = nvml.reading("GPU-1234")
    assert found is not None and ", ".join(judge_reading(found).problems) == words


def test_a_gpu_is_looked_at_before_it_is_used(
    library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    set_to(library, 0x0, 50, 2)
    monkeypatch.setattr(nvml, "visible_uuid", lambda: "GPU-1234")
    assert look_at("cuda").problems == ("used by 2 other processes",)
    assert look_at("emulated").problems == ()
    monkeypatch.setattr(nvml, "visible_uuid", lambda: None)
    assert look_at("cuda").problems == ()
