#include "sides.h"

#if defined(__x86_64__)
#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <algorithm>

namespace stepping {
namespace {

constexpr uint64_t kMostCompared = 1 << 20;

unsigned long long user_regs_struct::* const kGeneral[16] = {
    &user_regs_struct::rax, &user_regs_struct::rcx, &user_regs_struct::rdx, &user_regs_struct::rbx,
    &user_regs_struct::rsp, &user_regs_struct::rbp, &user_regs_struct::rsi, &user_regs_struct::rdi,
    &user_regs_struct::r8,  &user_regs_struct::r9,  &user_regs_struct::r10, &user_regs_struct::r11,
    &user_regs_struct::r12, &user_regs_struct::r13, &user_regs_struct::r14, &user_regs_struct::r15};

}  // namespace

uint64_t cut(uint64_t value, int bytes) { return bytes >= 8 ? value : value & ((1ull << 8 * bytes) - 1); }

uint64_t Side::general(int number) const { return regs.*kGeneral[number]; }
void Side::set_general(int number, uint64_t value) { regs.*kGeneral[number] = value; }

bool Side::read(uint64_t address, void* into, size_t bytes) const {
  // By aligned words, so that what lies beyond is not asked for: it may not be mapped.
  for (size_t done = 0; done < bytes;) {
    uint64_t at = (address + done) & ~7ull, skipped = address + done - at;
    size_t count = (size_t)std::min<uint64_t>(8 - skipped, bytes - done);
    errno = 0;
    long word = ptrace(PTRACE_PEEKDATA, pid, (void*)at, nullptr);
    if (errno) return false;
    memcpy((char*)into + done, (char*)&word + skipped, count);
    done += count;
  }
  return true;
}
void Side::clear(uint64_t begin, uint64_t end) const {
  for (uint64_t at = begin & ~7ull; at < end; at += 8) ptrace(PTRACE_POKEDATA, pid, (void*)at, nullptr);
}
bool Side::set_byte(uint64_t address, uint8_t value, uint8_t* before) const {
  errno = 0;
  long word = ptrace(PTRACE_PEEKTEXT, pid, (void*)address, nullptr);
  if (errno) return false;
  if (before) *before = (uint8_t)word;
  return ptrace(PTRACE_POKETEXT, pid, (void*)address, (void*)((word & ~0xffl) | value)) == 0;
}
void Side::read_registers() { ptrace(PTRACE_GETREGS, pid, nullptr, &regs); }
void Side::write_registers() { ptrace(PTRACE_SETREGS, pid, nullptr, &regs); }
void Side::read_vectors() { ptrace(PTRACE_GETFPREGS, pid, nullptr, &vectors); }

bool Side::stopped(int* by) {
  int status = 0;
  if (waitpid(pid, &status, __WALL) != pid) status = -1;
  if (status == -1 || !WIFSTOPPED(status)) {
    ended = true;
    if (status == -1) how = "cannot be waited for";
    else if (WIFSIGNALED(status)) how = std::string("ended by ") + strsignal(WTERMSIG(status));
    else if (WEXITSTATUS(status) == kNotTraced) how = "may not be traced (ptrace)";
    else how = "ended with code " + std::to_string(WEXITSTATUS(status));
    return false;
  }
  if (by) *by = WSTOPSIG(status);
  return true;
}

bool Sides::in_region(Pair v, int which) const {
  const Region &r = a.says.regions[which], &q = b.says.regions[which];
  return v.a - r.base == v.b - q.base && v.a >= r.begin && v.a < r.end;
}
Kind Sides::kind(Pair v, int bytes) const {
  v = {cut(v.a, bytes), cut(v.b, bytes)};
  if (v.a == v.b) return Kind::kEqual;
  if (bytes < 8) return Kind::kOther;
  for (int i = 0; i < kRegions; ++i)
    if (in_region(v, i)) return Kind::kAddress;
  for (const auto& [one, other] : blocks)
    if (v.a - one.base == v.b - other.base && v.a >= one.begin && v.a <= one.end) return Kind::kAddress;
  return Kind::kOther;
}
bool Sides::mapped(Pair v) const {
  uint8_t byte[8];
  auto there = [&](const Side& side, uint64_t at) { return side.read(at & ~7ull, byte, 8) || side.read((at - 1) & ~7ull, byte, 8); };
  return there(a, v.a) && there(b, v.b);
}
bool Sides::comparable(Pair one, Pair other) const {
  for (int i = 0; i < kRegions; ++i)
    if (in_region(one, i) && in_region(other, i)) return true;
  return mapped(one) && mapped(other);
}
Pair Sides::general(int number, bool high) const {
  int by = high ? 8 : 0;
  return {a.general(number) >> by, b.general(number) >> by};
}
Pair Sides::memory(Pair at, int bytes) const {
  Pair v;
  if (!a.read(at.a, &v.a, (size_t)bytes) || !b.read(at.b, &v.b, (size_t)bytes)) return {};
  return v;
}
bool Sides::same_memory(Pair at, uint64_t bytes) const {
  if (bytes > kMostCompared) return false;
  uint8_t one[64], other[64];
  for (uint64_t i = 0; i < bytes; i += sizeof one) {
    size_t count = (size_t)std::min<uint64_t>(sizeof one, bytes - i);
    if (!a.read(at.a + i, one, count) || !b.read(at.b + i, other, count)) return true;   // the access will fail there
    if (memcmp(one, other, count) != 0) return false;
  }
  return true;
}
void Sides::read_vectors() { a.read_vectors(), b.read_vectors(); }
bool Sides::same_vector(int number, size_t bytes) const {
  return memcmp((const char*)a.vectors.xmm_space + 16 * number, (const char*)b.vectors.xmm_space + 16 * number, bytes) == 0;
}
Pair Sides::vector_low(int number) const {
  Pair v;
  memcpy(&v.a, (const char*)a.vectors.xmm_space + 16 * number, 8);
  memcpy(&v.b, (const char*)b.vectors.xmm_space + 16 * number, 8);
  return v;
}

}  // namespace stepping
#endif
