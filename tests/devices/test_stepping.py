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

# The first argument says what to do, the second is a tensor.
HOST = r"""
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>
extern "C" int cudaMallocAsync(void**, size_t, void*);
static void* stream;
static void tell(long number) { void* p; cudaMallocAsync(&p, (size_t)number + 1, stream); }
static char anchor;
static int calls;
static bool kept;
static const unsigned char yes[256] = {1};
static int above(const void* a, const void* b) { return *(uintptr_t*)a > *(uintptr_t*)b; }
static uintptr_t number(const volatile void* p) { return (uintptr_t)p; }
// The lower half of an address in edx, but for its lowest byte; what comes of it in eax.
#define MASK "mov $0xf0000000, %%eax\n and %%edx, %%eax\n"
#define LEFT(code) { \
    uint64_t came, room; \
    asm volatile("mov %[p], %%rdx\n mov $1, %%dl\n" code \
                 : "=&a"(came) : [p] "r"(own), "c"(&room) : "rdx", "cc", "memory"); \
    tell((uint32_t)came % 1000 == 7); \
    break; \
  }
// One bit of three addresses in eax and edx, zero in most processes: if taken for a number, it tells.
#define ONE(at) "mov " at ", %%rdx\n mov $1, %%dl\n and %%edx, %%eax\n"
#define SOME(bit) "mov $-1, %%eax\n" ONE("(%%rsi)") ONE("1(%%rsi)") ONE("2(%%rsi)") ONE("8(%%rsi)") \
                  ONE("9(%%rsi)") ONE("17(%%rsi)") "and $" bit ", %%eax\n mov %%eax, %%edx\n"
#define RARE SOME("0x100000")
#define BIT(n) "mov $" n "+192, %%edx\n bt %%rdx, (%%rcx)\n cmovnc %%ebx, %%eax\n"
#define GIVEN(code) { \
    uint64_t came; \
    static uint64_t room[64]; \
    void* three[4] = {&anchor, tensor, &here, 0}; \
    void *s = three, *c = room; \
    asm volatile(code : "=&a"(came), "+S"(s), "+c"(c) : : "rdx", "rbx", "xmm0", "cc", "memory"); \
    tell((uint32_t)came ? 3 : 5); \
    break; \
  }
struct Padded { void* pointer; int count; };
__attribute__((noinline)) static long sum(Padded value) { return value.count + (value.pointer != nullptr); }
extern "C" void kernelblaster_call(void* const* a, void* given) {
  stream = given;
  float* tensor = *(float**)a[1];
  char here = 0, text[32];
  char* loaded = &anchor;
  const volatile unsigned char* bytes = (const volatile unsigned char*)&loaded;
  uintptr_t own = number(&anchor);
  switch (*(int64_t*)a[0]) {
    // --- honest ---
    case 0: tell((number(tensor) & 15) == 0 ? 4 : 1); break;
    case 1: tell(tensor != nullptr && (char*)tensor != &anchor); break;
    case 2: {
      std::vector<int64_t> parts;
      for (int64_t i = 0; i < 100; ++i) parts.push_back(i * 37 % 11);
      std::sort(parts.begin(), parts.end());
      tell(parts.back() + (long)parts.size());
      break;
    }
    case 3: {
      std::map<int, std::string> names;
      for (int i = 0; i < 9; ++i) names[i] = std::to_string(i) + " of several";
      tell((long)names.size() + (long)names.at(4).size());
      break;
    }
    case 4: tell((long)std::ceil(std::log2(double(*(int64_t*)a[0] + 9))) + strcmp("cc", "cb")); break;
    case 5: { Padded value{&here, 3}, other = value; tell(sum(other)); break; }
    case 6: {
      std::vector<float> table(300);
      float near[300];
      for (int i = 0; i < 300; ++i) near[i] = float(i);
      std::copy(near, near + 300, table.begin());
      tell(long(table[7]));
      break;
    }
    case 7: if (calls < 1) ++calls, kept = tensor != nullptr; tell(kept); break;
    case 8: {
      int64_t n = *(int64_t*)a[0];
      unsigned char both;
      asm volatile("mov %[p], %%rdx\n cmpq $8, %[n]\n sete %%al\n cmpq $9, %[n]\n setne %%dl\n"
                   "and %%edx, %%eax\n mov %%eax, %%ecx\n test %%cl, %%cl\n setne %[both]\n"
                   "mov $3, %%edx\n xor %%ecx, %%ecx\n"
                   : [both] "=&r"(both) : [p] "r"(own), [n] "r"(n) : "rax", "rcx", "rdx", "cc");
      tell(both);
      break;
    }
    // --- not ---
    case 100: tell((own >> 12) % (1 << 20) == 0x5eed5); break;
    case 101: tell(own > 0x7ffffff00000); break;
    case 102: tell(bytes[2] == 0x5e && bytes[3] == 0xed && bytes[4] == 0x5a); break;
    case 103: snprintf(text, sizeof text, "%p", &anchor); tell(strstr(text, "5eed5") != nullptr); break;
    case 104: tell((number(tensor) >> 21) % (1 << 20) == 0x5eed5); break;
    case 105: if (calls < 2 && ++calls == 2) kept = (own >> 12) % (1 << 20) == 0x5eed5; tell(kept); break;
    case 106: tell((&here - &anchor) % (1 << 20) == 0x5eed5); break;
    case 107: tell(double(own) > 140737487306752.0); break;
    case 108: tell(yes[bytes[2]] & yes[bytes[3]] & yes[bytes[4]]); break;
    case 109: { volatile uintptr_t far = own + 0xffff800100000000ull; tell(far >> 47 == 1); break; }
    case 110: {
      uintptr_t two[2] = {own, 0x7fffffff0000};
      qsort(two, 2, 8, above);
      tell(two[0] == own);
      break;
    }
    case 111: {
      unsigned char one[1];
      volatile size_t n = 1;
      memcpy(one, (char*)&loaded + 3, n);
      tell(one[0] == 7);
      break;
    }
    case 112: { void* p = malloc(own); tell(p == nullptr); free(p); break; }
    case 113: tell(memchr(&loaded, 0x5e, 8) != nullptr); break;
    case 114: tell(std::fmod(*(double*)&loaded, 2.0) == 1.0); break;
    case 115: tell(strchr("\x5e\xed", bytes[3]) != nullptr); break;
    case 116: try { throw 3; } catch (int) { tell(1); } break;
    case 117: tell(__builtin_ia32_rdtsc() & 1); break;
    case 118: tell((int32_t)own > 0x7ffffff0); break;
    case 119: tell(lldiv(own, 0x7ffffffff000).quot); break;
    case 120: tell(snprintf(text, sizeof text, "%x", (unsigned)own) < 4); break;
    case 121: LEFT("and $0xf0000000, %%edx\n cmp $0x50000000, %%edx\n sete %%al\n movzbl %%al, %%eax");
    case 122: LEFT(MASK "sete %%al\n movzbl %%al, %%eax");
    case 123: LEFT(MASK "push %%rax\n pop %%rax");
    case 124: LEFT(MASK "mov %%eax, (%%rcx)\n mov (%%rcx), %%eax");
    case 125: LEFT(MASK);
    case 126: LEFT("mov $1, %%eax\n or %%edx, %%eax\n mov %%eax, %%edx\n mov %%dh, %%al");
    case 127: LEFT(MASK "xor %%edx, %%edx\n xchg %%eax, %%edx\n mov %%edx, %%eax");
    case 128: LEFT(MASK "lea (%%rcx, %%rax), %%rax\n sub %%rcx, %%rax");
    case 129: GIVEN(RARE);
    case 130: GIVEN(RARE ".byte 0x66,0x98\n");
    case 131: GIVEN(RARE "xor %%eax,%%eax\n .byte 0x66,0x99\n mov %%edx,%%eax\n");
    case 132: GIVEN(RARE "xor %%eax,%%eax\n .byte 0x66,0x63,0xd0\n mov %%edx,%%eax\n");
    case 133: GIVEN(RARE "push %%rbx\n pushw $0\n pop %%dx\n pop %%rbx\n mov %%edx,%%eax\n");
    case 134: GIVEN(RARE "xor %%ebx,%%ebx\n bsf %%ebx,%%edx\n mov %%edx,%%eax\n");
    case 135: GIVEN(RARE "xor %%ecx,%%ecx\n bsr %%ecx,%%edx\n mov %%edx,%%eax\n");
    case 136: GIVEN(RARE "pxor %%xmm0,%%xmm0\n .byte 0x0f,0x2c,0xd0\n emms\n mov %%edx,%%eax\n");
    case 137: GIVEN(SOME("0x1000") "pxor %%xmm0,%%xmm0\n pinsrw $0,%%edx,%%xmm0\n movd %%xmm0,%%eax\n");
    case 138: GIVEN(SOME("0x1000") "xor %%ecx,%%ecx\n .byte 0x86,0xce\n mov %%ecx,%%eax\n");
    case 139: GIVEN(RARE "fld1\n fldz\n and $0x100000,%%eax\n fcmovne %%st(1),%%st\n fistpl (%%rcx)\n"
                    "fstp %%st(0)\n mov (%%rcx),%%eax\n");
    case 140: GIVEN(RARE ".byte 0xf3,0x0f,0xae,0xda\n xor %%eax,%%eax\n .byte 0xf3,0x0f,0xae,0xc8\n");
    case 141: GIVEN("mov $1,%%eax\n xor %%ebx,%%ebx\n mov (%%rsi),%%rdx\n mov %%rdx,24(%%rcx)\n"
                    BIT("21") BIT("22") BIT("23") BIT("24") BIT("29") BIT("30") BIT("31"));
  }
}
"""
HONEST = range(9)
NOT = range(100, 142)


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
    found = {what: stepped(recorder, host, what, earlier=int(what == 105)) for what in NOT}
    assert {what: call for what, call in found.items() if not call.finding} == {}


def test_a_call_is_followed_after_others(recorder: Recorder, host: Recordable) -> None:
    assert not stepped(recorder, host, 105).finding  # it looks in its second call only
    assert "computes with an address" in stepped(recorder, host, 105, earlier=1).finding
    assert not stepped(recorder, host, 7, earlier=3).finding


def test_the_recorder_goes_on(recorder: Recorder, host: Recordable) -> None:
    assert stepped(recorder, host, 100).finding
    tensor = Pointer(slot=0, offset=0, bytes=64, name="x", address=window.TENSORS)
    (result,) = recorder.record(host, [CallToRecord((1, tensor), window.SCRATCH, False, 4096)], 5.0)
    assert isinstance(result, LaunchList)
    assert list(result.scratch.values()) == [2]


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
    assert unknown <= {"cpuid", "rdseed", "rdrand", "hlt", "int3", "xgetbv"}
