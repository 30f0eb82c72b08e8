"""Recording: what host code hands over, what it cannot do, and that nothing it says is taken on trust."""

import errno
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection
from hypothesis import given
from hypothesis import strategies as st

from kernelblaster.devices import window
from kernelblaster.devices.device import (
    Arena,
    CandidateDied,
    CandidateHung,
    GpuFacts,
    Nondeterministic,
    Pointer,
)
from kernelblaster.devices.device_code import OBJECT, PTX, DeviceCode, device_code
from kernelblaster.devices.launch_list import InvalidLaunchList, LaunchList, RecordedLaunch, parse
from kernelblaster.devices.native_build import recorder_executable
from kernelblaster.devices.player_process import PlayerProcess
from kernelblaster.devices.recorder import CallToRecord, Recordable, Recorder
from kernelblaster.devices.replay import ReplayRunner
from kernelblaster.errors import DeviceLost, KernelBlasterError
from kernelblaster.judge.compile import Binary, compile_candidate
from kernelblaster.judge.screen_binary import ALLOWED_CUDA
from kernelblaster.records import Candidate
from kernelblaster.tasks.catalog import load_task

GPU = GpuFacts("some GPU", 1 << 37, {1: 1024, 16: 132, 97: 227 << 10})
STREAM = 4096
LIMIT_S = 5.0
Result = LaunchList | CandidateDied | CandidateHung

SOFTMAX = """
__constant__ float scale[2];
__global__ void first(float* out, const float* x, int64_t n) { out[0] = x[0] * scale[0] + n; }
__global__ void second(float* scratch, float v) { scratch[0] = v; }
extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          cudaStream_t stream) {
  const float values[2] = {1, 2};
  float* scratch;
  int blocks = 0;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, first, 64, 0);
  cudaMemcpyToSymbolAsync(scale, values, 8, 0, cudaMemcpyHostToDevice, stream);
  cudaMallocAsync((void**)&scratch, 100, stream);
  first<<<dim3(x_0, 2), 64, 16, stream>>>(out, x, x_1);
  second<<<blocks, 32, 0, stream>>>(scratch, 1.5f);
  cudaMemsetAsync(out, 0, x_0, stream);
  cudaFreeAsync(scratch, stream);
}
"""

# Host code without a kernel. Its first argument says what to do; what it finds out it tells as the sizes of
# scratch memory that it asks for, one more than the number.
HOST = r"""
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
extern "C" int cudaMallocAsync(void**, size_t, void*);
extern "C" int cudaMemcpyAsync(void*, const void*, size_t, int, void*);
extern "C" const char* cudaGetErrorName(int);
extern "C" char** environ;
static void* stream;
static void tell(long number) { void* p; cudaMallocAsync(&p, (size_t)number + 1, stream); }
static void tried(long result) { tell(result < 0 ? errno : 0); }
static void say(const char* text) { if (write(3, text, strlen(text))) {} }
// How often memory holds a text, from `at` on up or down to where nothing is mapped.
static long holds(char* at, long step, const char* text) {
  char *begin = at, *end = at;
  char*& edge = step < 0 ? begin : end;
  while (madvise(step < 0 ? edge - 4096 : edge, 4096, MADV_NORMAL) == 0) edge += step;
  long found = 0;
  while ((begin = (char*)memmem(begin, end - begin, text, strlen(text)))) ++found, ++begin;
  return found;
}
static void try_all() {
  static char buffer[64];
  timespec t = {0, 1};
  char* none[] = {nullptr};
  tried(syscall(SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY));
  tried(syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY));
  tried(syscall(SYS_openat, AT_FDCWD, "/candidate.so", O_RDONLY));
  tried(syscall(SYS_openat, AT_FDCWD, "/new", O_WRONLY | O_CREAT, 0600));
  tried(syscall(SYS_unlink, "/candidate.so"));
  tried(syscall(SYS_read, 0, buffer, 1));
  tried(syscall(SYS_dup2, 3, 1));
  tried(syscall(SYS_close, 3));
  tried(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  tried(syscall(SYS_execve, "/candidate.so", none, none));
  tried(syscall(SYS_socket, 1, 1, 0));
  tried(syscall(SYS_kill, syscall(SYS_getppid), 0));
  tried(syscall(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0));
  tried(syscall(SYS_prctl, PR_SET_PDEATHSIG, 0));
  tried(syscall(SYS_nanosleep, &t, nullptr));
  tried(syscall(SYS_clock_gettime, CLOCK_REALTIME, &t));
  tried((long)mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  tried((long)mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, 3, 0));
  tried(mprotect((void*)((uintptr_t)buffer & ~4095ul), 4096, PROT_READ | PROT_WRITE | PROT_EXEC));
  tried((long)mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  int variables = 0;
  while (environ && environ[variables]) ++variables;
  tell(variables);
}
extern "C" void kernelblaster_call(void* const* a, void* given) {
  static int calls = 0;
  char* pointer = *(char**)a[1];
  stream = given;
  switch (*(int64_t*)a[0]) {
    case 0: try_all(); break;
    case 1: tell(*(volatile char*)pointer); break;
    case 2: exit(7);
    case 3: exit(0);
    case 4: for (volatile int i = 0;; i = i + 1) {}
    case 5: tell(++calls > 1); break;
    case 6: say("verdict: Accepted\n"); break;
    case 7: say("launch x 1\n"); exit(0);
    case 8: say("alloc 1 2\nend\n"); break;
    case 9: say("ask blocks\n"); exit(0);
    case 10: say("broken everything\nend\n"); exit(0);
    case 11: for (;;) tell(0);
    case 12: cudaMemcpyAsync(pointer, a, 1 << 30, 1, stream); break;
    case 13: stream = nullptr; tell(0); break;
    case 14: cudaMemcpyAsync((void*)a[0], pointer, 8, 2, stream); break;
    case 15: throw 3;
    case 16: *(volatile char*)malloc(1l << 40) = 1; break;
    case 17: syscall(SYS_futex, &calls, 0, 0, nullptr, nullptr, 0); break;
    case 18: tell(7); break;
    case 20: tell(cudaGetErrorName(1)[0]); break;
    case 21: {
      static int* count = (int*)calloc(1, sizeof(int));
      tell(++*count > 600);
      break;
    }
    case 22: {
      volatile char* fresh = (volatile char*)malloc(4096);
      tell(fresh[100] == fresh[200] && fresh[100] != 0);
      free((void*)fresh);
      break;
    }
    case 23: tell(++errno > 600); break;
    case 24: {
      static void* once = malloc(100);
      static int set = *(int64_t*)a[0] + 1;
      tell(once && set == 25);
      break;
    }
    case 19: {
      char number[32];
      snprintf(number, sizeof number, "%lu", (unsigned long)pointer - 1);
      char* stack = (char*)(((uintptr_t)number + 4095) & ~4095ul);   // of the functions that called this one
      tell(holds((char*)sbrk(0), -4096, number) + holds(stack, 4096, number));
    }
  }
}
"""
TRIED = (
    "a file of the system", "its own memory map", "its own object", "a new file", "deleting",
    "standard input", "moving the answer", "closing the answer", "a process", "a program", "a socket",
    "a signal to its parent", "tracing", "outliving its parent", "sleeping", "a clock",
    "executable memory", "a mapped file", "memory made executable",
)  # fmt: skip

AT_LOAD = r"""
#include <sys/prctl.h>
#include <unistd.h>
extern "C" int cudaMallocAsync(void**, unsigned long, void*);
static int denied = 0;
__attribute__((constructor)) static void load() {
  denied += prctl(PR_SET_PDEATHSIG, 0) < 0;
  denied += fork() < 0;
#ifdef CLOSES
  close(3);
  for (volatile int i = 0;; i = i + 1) {}
#endif
}
extern "C" void kernelblaster_call(void* const*, void* stream) {
  void* p;
  cudaMallocAsync(&p, denied, stream);
}
"""


@pytest.fixture(scope="module")
def recorder(compiler: str) -> Iterator[Recorder]:
    made = Recorder()
    yield made
    made.close()


def built(folder: Path, source: str, *options: str) -> Recordable:
    folder.chmod(0o755)  # for the child's user
    (folder / "host.cpp").write_text(source)
    (folder / PTX).write_text("")
    command = ["g++", "-O1", "-shared", "-fPIC", "-w", *options, "host.cpp", "-o", OBJECT]
    subprocess.run(command, cwd=folder, check=True)
    return Recordable(folder, DeviceCode({}, {}), GPU, {})


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, compiler: str) -> Recordable:
    """`HOST`, compiled without the screen."""
    return built(tmp_path_factory.mktemp("host"), HOST)


def at(address: int) -> Pointer:
    return Pointer(slot=0, offset=0, bytes=64, name="x", address=address)


def call(what: int) -> CallToRecord:
    return CallToRecord((what, at(window.TENSORS)), window.SCRATCH, False, STREAM)


def one(recorder: Recorder, candidate: Recordable, what: int, limit_s: float = LIMIT_S) -> Result:
    return one_call(recorder, candidate, call(what), limit_s)


def one_call(
    recorder: Recorder, candidate: Recordable, wanted: CallToRecord, limit_s: float = LIMIT_S
) -> Result:
    (result,) = recorder.record(candidate, [wanted], limit_s)
    return result


def told(result: Result) -> list[int]:
    assert isinstance(result, LaunchList), result
    return [size - 1 for size in result.scratch.values()]


# --- what is recorded ---------------------------------------------------------------------------


def test_the_stand_in_has_every_allowed_function_and_no_other(compiler: str) -> None:
    with recorder_executable().open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".dynsym")
        assert isinstance(symbols, SymbolTableSection)
        exported = {s.name for s in symbols.iter_symbols() if s["st_shndx"] != "SHN_UNDEF"}
    cuda = {name for name in exported if name.startswith(("cu", "__cuda"))}
    renamed = {"cudaGetDeviceProperties_v2", "cudaGetDeviceProperties"}  # one or the other, by version
    assert set(ALLOWED_CUDA) - renamed == cuda - renamed
    assert renamed & cuda


def test_a_candidate_is_recorded_as_data(recorder: Recorder) -> None:
    binary = compile_candidate(load_task("core/level1/softmax"), Candidate(source=SOFTMAX), "sm_90a")
    assert isinstance(binary, Binary), binary
    code = device_code(binary.path.parent)
    place = window.GLOBALS
    candidate = Recordable(binary.path.parent, code, GPU, {"scale": place})
    out, x = at(window.TENSORS), at(window.TENSORS + window.PAGE)
    wanted = CallToRecord((out, x, 3, 5), window.SCRATCH, True, STREAM)
    (asked,) = recorder.record(candidate, [wanted], LIMIT_S)
    assert isinstance(asked, LaunchList)
    question = asked.question
    assert question is not None and re.fullmatch(r"blocks \w*first\w* 64 0", question)
    candidate.facts[question] = 9
    (found,) = recorder.record(candidate, [wanted], LIMIT_S)
    assert isinstance(found, LaunchList)
    assert (found.question, found.errors, found.violations, found.kept_scratch) == (None, (), (), [])
    kinds = [operation.split(" ")[0] for operation in found.operations]
    assert kinds == ["upload", "alloc", "launch", "launch", "fill", "free"]
    assert found.operations[0] == f"upload {place} 0000803f00000040"
    first, second = found.launches
    assert (first.grid, first.block, first.shared_bytes) == ((3, 2, 1), (64, 1, 1), 16)
    assert second.grid == (9, 1, 1)
    buffer = b"".join(v.to_bytes(8, "little") for v in (out.address, x.address, 5))
    assert found.operations[2].endswith(buffer.hex())
    (address,) = found.scratch
    assert address >= window.SCRATCH and (address + 100) % window.PAGE >= window.PAGE - 256  # at the end


def test_calls_of_one_request_are_answered_in_order(recorder: Recorder, host: Recordable) -> None:
    results = recorder.record(host, [call(18), call(5), call(18), call(18)], LIMIT_S)
    assert [told(one) for one in results] == [[7], [0], [7], [7]]


def test_one_that_dies_ends_all(recorder: Recorder, host: Recordable) -> None:
    results = recorder.record(host, [call(2), *[call(18)] * 40], LIMIT_S)
    assert isinstance(results[0], CandidateDied) and isinstance(results[-1], CandidateDied)


def test_all_recordings_together_have_a_limit(recorder: Recorder, host: Recordable) -> None:
    start = time.monotonic()
    results = recorder.record(host, [call(17)] * 8, limit_s=60.0, all_s=0.3)
    assert [type(one) for one in results] == [CandidateHung] * 8
    assert time.monotonic() - start < 30.0  # and not 60 for each
    assert told(one(recorder, host, 18)) == [7]  # the next candidate gets a recorder that works


def test_memory_between_calls_shows(recorder: Recorder, host: Recordable) -> None:
    again = CallToRecord(call(5).arguments, window.SCRATCH, False, STREAM, before=((1, call(5).arguments),))
    alone, later = recorder.record(host, [call(5), again], LIMIT_S)
    assert (told(alone), told(later)) == ([0], [1])
    runner = ReplayRunner(
        cast(PlayerProcess, None),
        recorder,
        host.folder / OBJECT,
        GPU,
        cast(Arena, None),
        answer=lambda question: 1,
        limit_s=LIMIT_S,
    )
    for counting in (5, 21, 23):  # also where the count does not show yet
        assert "changes what it keeps" in runner.recorded(call(counting).arguments).violations[0]
    assert "did not happen" in runner.recorded(call(20).arguments).violations[0]
    with pytest.raises(Nondeterministic, match="launches something else"):
        runner.recorded(call(22).arguments)
    assert not runner.recorded(call(24).arguments).violations  # what is set up once
    assert runner.recorded(call(18).arguments).works == 0


def test_a_recording_sees_nothing_of_others(recorder: Recorder, host: Recordable) -> None:
    """Neither what they were given nor what they launched, in this request and those before."""
    secret = window.SCRATCH + 1234 * window.PAGE
    other = CallToRecord((18, at(secret)), secret, False, STREAM)
    search = CallToRecord((19, at(secret + 1)), window.SCRATCH, False, STREAM)
    control = CallToRecord((19, at(secret + 1)), secret, False, STREAM, before=((1, (18, at(secret))),))
    results = recorder.record(host, [*[other] * 8, search, other], LIMIT_S)
    assert list(cast(LaunchList, results[0]).scratch) == [secret]
    assert told(results[8]) == [0]
    assert told(one_call(recorder, host, search)) == [0]
    assert told(one_call(recorder, host, control))[-1] > 0  # what it was given itself, it finds


# --- what host code cannot do -------------------------------------------------------------------


def test_host_code_can_compute_and_nothing_else(recorder: Recorder, host: Recordable) -> None:
    results = told(one(recorder, host, 0))
    *refused, plain_memory, variables = results
    assert dict(zip(TRIED, refused, strict=True)) == dict.fromkeys(TRIED, errno.EPERM)
    assert (plain_memory, variables) == (0, 0)


@pytest.mark.parametrize(
    ("what", "sentence"),
    [
        (1, "SIGSEGV; host code cannot read or write device memory"),
        (2, "called exit with code 7"),
        (3, "the host code ended its process"),
        (15, "was ended by SIG"),
        (16, "was ended by SIG"),
    ],
)
def test_host_code_that_ends_its_process(
    recorder: Recorder, host: Recordable, what: int, sentence: str
) -> None:
    result = one(recorder, host, what)
    assert isinstance(result, CandidateDied) and sentence in str(result)


@pytest.mark.parametrize("what", [4, 17])
def test_host_code_that_does_not_return(recorder: Recorder, host: Recordable, what: int) -> None:
    assert isinstance(one(recorder, host, what, limit_s=0.3), CandidateHung)
    assert told(one(recorder, host, 18)) == [7]


@pytest.mark.parametrize("what", range(6, 11))
def test_words_of_its_own_are_no_launch_list(recorder: Recorder, host: Recordable, what: int) -> None:
    result = one(recorder, host, what)
    assert isinstance(result, CandidateDied) and "cannot be read" in str(result)


@pytest.mark.parametrize(
    ("what", "violation"),
    [
        (11, "a launch list of more than 20000 operations"),
        (12, "a copy of 1073741824 bytes from the host"),
        (13, "another stream"),
        (14, "a copy to the host"),
    ],
)
def test_what_the_contract_forbids(recorder: Recorder, host: Recordable, what: int, violation: str) -> None:
    result = one(recorder, host, what)
    assert isinstance(result, LaunchList) and violation in result.violations[0]


def test_code_that_runs_at_load_is_confined_too(recorder: Recorder, tmp_path: Path) -> None:
    assert told(one(recorder, built(tmp_path, AT_LOAD), 0)) == [1]  # of two things, both denied
    closed = built(tmp_path, AT_LOAD, "-DCLOSES")
    result = one(recorder, closed, 0)
    assert isinstance(result, CandidateDied) and "SIGKILL" in str(result)


def test_a_file_that_cannot_be_loaded_says_so(recorder: Recorder, tmp_path: Path) -> None:
    source = 'extern "C" void nowhere(); extern "C" void kernelblaster_call() { nowhere(); }'
    result = one(recorder, built(tmp_path, source), 0)
    assert isinstance(result, LaunchList) and "nowhere" in (result.unloadable or "")


# --- the sandbox --------------------------------------------------------------------------------


def test_a_child_is_nobody_in_a_folder_with_one_descriptor(recorder: Recorder, host: Recordable) -> None:
    """Seen from outside while it runs; and it does not outlive its recorder."""
    mine = Recorder()
    mine.gaps()
    assert mine._process is not None
    thread = threading.Thread(target=lost, args=(mine, host))
    thread.start()
    child = waited(lambda: confined(cast("subprocess.Popen[bytes]", mine._process).pid))
    assert child is not None
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{child}/status").read_text().splitlines())
    assert (status["Seccomp"], status["NoNewPrivs"], int(status["CapEff"], 16)) == ("2", "1", 0)
    if os.geteuid() == 0:
        assert status["Uid"].split() == status["Gid"].split() == ["65534"] * 4
        assert status["Groups"].strip() == ""
        assert Path(f"/proc/{child}/root").readlink() == host.folder.resolve()
        opened = {fd.name: str(fd.readlink()) for fd in Path(f"/proc/{child}/fd").iterdir()}
        assert opened.pop("3").startswith("pipe:")
        assert opened == dict.fromkeys("012", "/dev/null")
    mine._process.kill()
    thread.join()
    assert waited(lambda: not Path(f"/proc/{child}").exists())


def lost(recorder: Recorder, host: Recordable) -> None:
    with pytest.raises(DeviceLost):
        one(recorder, host, 17, limit_s=20.0)


def confined(parent: int) -> int | None:
    """A child of `parent` that has both filters in place and waits."""
    for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        status = Path(f"/proc/{child}/status").read_text()
        if "Seccomp_filters:\t2" in status and "State:\tS" in status:
            return int(child)
    return None


def waited(look: Callable[[], int | None], limit_s: float = 5.0) -> int | None:
    """What `look` finds, once it does."""
    deadline = time.monotonic() + limit_s
    while not (found := look()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


def test_nothing_is_missing_here(recorder: Recorder) -> None:
    assert recorder.gaps() == ""


def test_where_something_is_missing_nothing_is_run(
    recorder: Recorder, host: Recordable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "_gaps", "system calls cannot be filtered")
    with pytest.raises(KernelBlasterError, match=r"cannot be confined .*: system calls cannot be filtered"):
        one(recorder, host, 18)


# --- launch lists -------------------------------------------------------------------------------

LAUNCH = "launch k 1 2 3 32 1 1 0 2 2 1 1 0 0011"
GOOD = (
    LAUNCH, "launch _Z1kPf$x 1 1 1 1 1 1 0 0 0 0 0 0 -", "alloc 4096 100", "free 4096", "attribute k 8 65536",
    "attribute k 8 -1", "tensormap 0 tiled 7 2 4096 0 1 -2", "fill 4096 16 255 16 1", "copy 1 2 3 4 5 6",
    "upload 4096 00ff", "upload 4096 -", "error something", "violation something",
)  # fmt: skip
BAD = (
    "", "end", "launch", LAUNCH + " ", LAUNCH + "0", LAUNCH.upper(), " " + LAUNCH, LAUNCH.replace("k", "k k"),
    LAUNCH.replace("32", "-32"), LAUNCH.replace(" 2 2 ", " 4 2 "), "alloc 1", "alloc 1 2 3", "alloc -1 2",
    "alloc 1 \u0662", "free", "free x", "free 1\r", "upload 1 0", "upload 1 0G", "fill 1 1 1000 1 1",
    "tensormap 0 other 1", "module /etc/passwd", "ask", "ask blocks k", "ask blocks k 1 x", "ask time k 1 2",
    "broken by itself", "Accepted",
)  # fmt: skip


def test_a_launch_list_is_read() -> None:
    found = parse("\n".join([*GOOD, "end", ""]))
    assert found.operations == GOOD[:-2] and found.errors == found.violations == ("something",)
    assert found.launches[0] == RecordedLaunch("k", (1, 2, 3), (32, 1, 1), 0, False, True, (2, 1, 1))
    assert found.scratch == {4096: 100} and found.kept_scratch == [] and found.works == 6
    assert parse("ask clusters k 128 0 8\n").question == "clusters k 128 0 8"


@pytest.mark.parametrize("line", BAD)
def test_a_line_of_another_form_is_refused(line: str) -> None:
    with pytest.raises(InvalidLaunchList):
        parse(f"{LAUNCH}\n{line}\nend\n")


@pytest.mark.parametrize("text", ["", "end", LAUNCH, f"{LAUNCH}\n", "end\nend\n", "error x\n" * 17 + "end\n"])
def test_a_list_that_does_not_end_is_refused(text: str) -> None:
    with pytest.raises(InvalidLaunchList):
        parse(text)


FORM = re.compile(
    r"(launch [\w$]+( \d+){12} (-|[0-9a-f]+)|(alloc|fill|copy)( \d+)+|free \d+|upload \d+ (-|[0-9a-f]+)"
    r"|attribute [\w$]+ \d+ -?\d+|tensormap \d+ (tiled|im2col)( -?\d+)+)",
    re.ASCII,
)
PIECES = st.sampled_from([*GOOD, *BAD, "\n", "\n", "\n", " ", "end\n", "-", "0", "\x00", "\u0660", "\u2028"])


@given(st.text(max_size=80) | st.lists(PIECES, max_size=8).map("".join).map(lambda text: text + "\nend\n"))
def test_any_text_is_a_list_of_known_operations_or_refused(text: str) -> None:
    try:
        found = parse(text)
    except InvalidLaunchList:
        return
    assert all(FORM.fullmatch(operation) for operation in found.operations)
    assert all(line.isprintable() for line in (*found.errors, *found.violations))
    _ = found.launches, found.scratch, found.kept_scratch, found.works  # no surprise in the numbers


def test_the_layout_of_arguments_on_the_wire() -> None:
    text = CallToRecord((at(512), 7, -1, True, 0.5), 4096, True, 16, before=((2, (3,)),)).text
    assert text == "4096 1 16 0 2 1 i3 1 5 i512 i7 i-1 b1 d0.5"
