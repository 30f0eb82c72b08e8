"""Where system calls cannot be filtered, host code is not run, unless a person says so."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelblaster import settings
from kernelblaster.devices import recorder as recording
from kernelblaster.devices import window
from kernelblaster.devices.device import GpuFacts
from kernelblaster.devices.device_code import OBJECT, PTX, DeviceCode
from kernelblaster.devices.launch_list import LaunchList
from kernelblaster.devices.native_build import recorder_executable
from kernelblaster.devices.recorder import CallToRecord, Recordable, Recorder
from kernelblaster.errors import NoDevice

UNFILTERED = """#!{python}
import os, sys
sys.path[:0] = {path!r}
from small_container import refuse_filters
refuse_filters(22)
os.execv({executable!r}, [{executable!r}, *sys.argv[1:]])
"""
HOST = """#include <stddef.h>
extern "C" int cudaMallocAsync(void**, size_t, void*);
extern "C" void kernelblaster_call(void* const*, void* stream) { void* p; cudaMallocAsync(&p, 7, stream); }
"""
CALL = CallToRecord((), window.SCRATCH, False, 4096)


@pytest.fixture
def recorder(compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    """In a system without seccomp."""
    wrapper = tmp_path / "recorder"
    executable = str(recorder_executable())
    wrapper.write_text(UNFILTERED.format(python=sys.executable, path=sys.path, executable=executable))
    wrapper.chmod(0o755)
    monkeypatch.setattr(recording, "recorder_executable", lambda: wrapper)
    monkeypatch.delenv(settings.UNSAFE, raising=False)
    made = Recorder()
    yield made
    made.close()


@pytest.fixture
def candidate(tmp_path: Path) -> Recordable:
    folder = tmp_path / "candidate"
    folder.mkdir()
    (folder / "host.cpp").write_text(HOST)
    (folder / PTX).write_text("")
    command = ["g++", "-shared", "-fPIC", "host.cpp", "-o", OBJECT]
    subprocess.run(command, cwd=folder, check=True, timeout=60)
    folder.chmod(0o755)
    return Recordable(folder, DeviceCode({}, {}), GpuFacts("a GPU", 1 << 36, {}), {})


def test_nothing_is_run_where_it_cannot_be_confined(recorder: Recorder, candidate: Recordable) -> None:
    assert recorder.gaps() == "system calls cannot be filtered (seccomp: Invalid argument)"
    assert recorder.remark == ""
    with pytest.raises(NoDevice, match=r"seccomp: Invalid argument\). Their host code is not run.*--unsafe"):
        recorder.record(candidate, [CALL], 5.0)


def test_a_person_may_say_so_and_the_device_tells(
    recorder: Recorder, candidate: Recordable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(settings.UNSAFE, "1")
    (found,) = recorder.record(candidate, [CALL], 5.0)
    assert isinstance(found, LaunchList) and list(found.scratch.values()) == [7]
    assert recorder.remark == ", host code not confined"
