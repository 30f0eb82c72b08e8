"""Stepped calls: host code that uses addresses as addresses passes; whatever makes a number of one is found,
also where it would act on it in one process of a million only."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kernelblaster.devices import window
from kernelblaster.devices.device import GpuFacts, Pointer, SteppedCall
from kernelblaster.devices.device_code import OBJECT, PTX, DeviceCode
from kernelblaster.devices.launch_list import LaunchList
from kernelblaster.devices.native_build import NATIVE, recorder_executable
from kernelblaster.devices.recorder import CallToRecord, Recordable, Recorder

GPU = GpuFacts("some GPU", 1 << 37, {})
AWAY = 3 * window.PAGE
LIMIT_S = 60.0

HOST = Path(__file__).with_name("addresses.cpp").read_text()
HONEST = range(20)
NOT = range(100, 176)
SECOND = {105, 172, 173, 174}  # those that show in the second call


@pytest.fixture(scope="module")
def recorder(compiler: str) -> Iterator[Recorder]:
    made = Recorder()
    yield made
    made.close()


@pytest.fixture(scope="module", params=["-O1", "-O3"])
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recordable:
    folder = tmp_path_factory.mktemp("host")
    folder.chmod(0o755)  # for the user that host code runs as
    (folder / "host.cpp").write_text(HOST)
    (folder / PTX).write_text("")
    command = ["g++", request.param, "-shared", "-fPIC", "-w", "host.cpp", "-o", OBJECT]
    subprocess.run(command, cwd=folder, check=True)
    return Recordable(folder, DeviceCode({}, {}), GPU, {})


def stepped(recorder: Recorder, host: Recordable, what: int, earlier: int = 0) -> SteppedCall:
    tensor = Pointer(slot=0, offset=0, bytes=64, name="x", address=window.TENSORS)
    calls = []
    for address in (tensor.address, tensor.address + AWAY):
        arguments = (what, replace(tensor, address=address))
        before = ((earlier, arguments),) if earlier else ()
        calls.append(CallToRecord(arguments, window.SCRATCH, False, 4096, before=before))
    return recorder.step(host, calls[0], calls[1], AWAY, 0x1234567890AB, LIMIT_S)


def test_addresses_may_be_used_as_addresses(recorder: Recorder, host: Recordable) -> None:
    found = {what: stepped(recorder, host, what) for what in HONEST}
    assert {what: call for what, call in found.items() if call.finding or call.missing} == {}
    assert all(call.instructions > 10 for call in found.values())


def test_numbers_made_of_addresses_are_found(recorder: Recorder, host: Recordable) -> None:
    found = {what: stepped(recorder, host, what, earlier=int(what in SECOND)) for what in NOT}
    assert {what: call for what, call in found.items() if not call.finding} == {}


def test_a_call_is_followed_after_others(recorder: Recorder, host: Recordable) -> None:
    assert not stepped(recorder, host, 105).finding  # it looks in its second call only
    assert stepped(recorder, host, 105, earlier=1).finding
    assert not stepped(recorder, host, 7, earlier=3).finding


def test_the_recorder_goes_on(recorder: Recorder, host: Recordable) -> None:
    assert stepped(recorder, host, 100).finding
    tensor = Pointer(slot=0, offset=0, bytes=64, name="x", address=window.TENSORS)
    (result,) = recorder.record(host, [CallToRecord((1, tensor), window.SCRATCH, False, 4096)], 5.0)
    assert isinstance(result, LaunchList)
    assert list(result.scratch.values()) == [2]


@pytest.mark.parametrize("seed", [1, 2])
def test_instructions_read_what_the_decoder_says(tmp_path: Path, seed: int) -> None:
    program = tmp_path / "reads"
    sources = [str(Path(__file__).with_name("instruction_reads.cpp")), str(NATIVE / "instruction.cpp")]
    subprocess.run(["g++", "-O1", "-std=c++17", "-I", str(NATIVE), *sources, "-o", str(program)], check=True)
    told = subprocess.run([program, str(seed), "20000"], capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == ["20000 executed"]


@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump is not installed")
def test_instructions_are_as_long_as_a_disassembler_says(compiler: str, tmp_path: Path) -> None:
    program = tmp_path / "lengths"
    sources = [str(Path(__file__).with_name("lengths.cpp")), str(NATIVE / "instruction.cpp")]
    subprocess.run(["g++", "-O1", "-std=c++17", "-I", str(NATIVE), *sources, "-o", str(program)], check=True)
    command = ["objdump", "-d", "-w", "--insn-width=16", "--section=.text", str(recorder_executable())]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = re.findall(r"^ *[0-9a-f]+:\t((?:[0-9a-f]{2} )+) *\t(\S+)", listing, re.MULTILINE)
    codes = [(code.replace(" ", ""), name) for code, name in lines]
    given = "\n".join(code for code, _ in codes) + "\n"
    told = subprocess.run([program], input=given, capture_output=True, text=True, check=True).stdout.split()
    wrong = {name for (code, name), n in zip(codes, told, strict=True) if int(n) not in (0, len(code) // 2)}
    unknown = {name for (_, name), n in zip(codes, told, strict=True) if n == "0"}
    assert len(codes) > 100_000
    assert wrong == set()
    assert unknown <= {"cpuid", "rdseed", "rdrand", "hlt", "incsspq", "int3", "xgetbv"}
