"""The worker executable builds, exports a shim for every allowed function, and fails politely."""

import subprocess
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from kernelblaster.devices.device import CandidateDied, CandidateHung, Pointer
from kernelblaster.devices.toolchain import toolchain
from kernelblaster.devices.worker_build import worker_executable
from kernelblaster.devices.worker_process import WorkerProcess, WorkerRunner, encode
from kernelblaster.errors import DeviceLost
from kernelblaster.judge.screen_binary import ALLOWED_CUDA


@pytest.fixture(scope="module")
def executable(compiler: str) -> Path:
    return worker_executable("sm_90a")


def test_every_allowed_function_has_a_shim(executable: Path) -> None:
    with executable.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".dynsym")
        exported = {s.name for s in symbols.iter_symbols() if s["st_shndx"] != "SHN_UNDEF"}
    renamed = {"cudaGetDeviceProperties_v2", "cudaGetDeviceProperties"}
    assert not (set(ALLOWED_CUDA) - renamed) - exported
    assert renamed & exported


def test_without_a_driver_the_worker_says_so(executable: Path) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("there is a driver here")
    environment = {"KERNELBLASTER_CUDART": toolchain().runtime or ""}
    worker = WorkerProcess(executable, 1 << 20, environment)
    with pytest.raises(DeviceLost, match=r"could not begin|did not start"):
        worker.wait_ready()
    worker.kill()


def test_a_second_build_is_taken_from_the_cache(executable: Path) -> None:
    stamp = executable.stat().st_mtime_ns
    assert worker_executable("sm_90a").stat().st_mtime_ns == stamp


def script(tmp_path: Path, body: str) -> WorkerRunner:
    """A stand-in for the worker: a Python program that speaks, or fails to speak, its protocol."""
    program = tmp_path / "worker.py"
    program.write_text(f"#!{sys.executable}\nimport sys, time, os\n{body}\n")
    program.chmod(0o755)
    return WorkerRunner(WorkerProcess(program, 0, {}), limit_s=1.0)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("sys.stdin.readline(); os._exit(7)", "exit with code 7"),
        ("sys.stdin.readline(); os.kill(os.getpid(), 11)", "SIGSEGV"),
        ("sys.stdin.readline(); print('Accepted 100x', flush=True); time.sleep(9)", "not an answer"),
        ("sys.stdin.readline(); print('[1]', flush=True); time.sleep(9)", "not an answer"),
        ("sys.stdin.readline(); print('{}', flush=True); time.sleep(9)", "another form"),
        ("sys.stdin.readline(); os.write(1, b'{}\\n{}\\n'); time.sleep(9)", "out of turn"),
    ],
)
def test_a_process_that_breaks_the_protocol_died(tmp_path: Path, body: str, message: str) -> None:
    runner = script(tmp_path, body)
    with pytest.raises(CandidateDied, match=message):
        runner.call([Pointer(0)], scratch_poison=-1, accounting=False)
    runner.close()


def test_a_process_that_does_not_answer_hangs(tmp_path: Path) -> None:
    runner = script(tmp_path, "time.sleep(60)")
    with pytest.raises(CandidateHung):
        runner.time([1])
    runner.close()


def test_arguments_on_the_wire() -> None:
    assert encode([Pointer(512), 7, True, 0.5]) == "4 p512 i7 b1 d0.5"


def test_the_sanitizer_report_is_read() -> None:
    from kernelblaster.devices.sanitizer import parse

    report = (
        "========= COMPUTE-SANITIZER\n"
        "========= Invalid __global__ write of size 4 bytes\n"
        "=========     at scale(float *)+0x40 in candidate.cu:12\n"
        "=========     by thread (5,0,0) in block (0,0,0)\n"
        "========= ERROR SUMMARY: 1 error\n"
    )
    (finding,) = parse("memcheck", report)
    assert finding.startswith("memcheck: Invalid __global__ write") and "candidate.cu:12" in finding
    assert parse("memcheck", "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n") == []


def test_objects_are_built_without_warnings(executable: Path) -> None:
    assert subprocess.run([str(executable)], capture_output=True, check=False).returncode == 2
