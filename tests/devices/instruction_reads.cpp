// Executes random instructions that are decoded (instruction.h), and shows that none of them reads what the decoder does not
// tell. Each is executed twice, by two states that agree in all that it is said to read and differ in everything else.
// Whatever comes of it must then be the same in both, be as it was, or, if the instruction is said to move bits, be bytes of
// the state before.
//
//   instruction_reads SEED COUNT     prints a line for each instruction that breaks this rule, then the number executed
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bitset>
#include <random>
#include <string>
#include <vector>

#include "instruction.h"

namespace {

using stepping::Does;
using stepping::Instruction;

constexpr size_t kData = 4096;
constexpr int kStack = 4;   // the number of rsp
constexpr uint64_t kFlags = 0x8d5;   // carry, parity, adjust, zero, sign, overflow

uint8_t *code, *data;
pid_t child;
std::mt19937_64 draw;

unsigned one_of(unsigned count) { return (unsigned)(draw() % count); }

struct State {
  user_regs_struct general{};
  user_fpregs_struct vectors{};
  std::vector<uint8_t> memory = std::vector<uint8_t>(kData);
  int signal = 0;
  unsigned long long& reg(int number) {
    unsigned long long* in_order[16] = {&general.rax, &general.rcx, &general.rdx, &general.rbx, &general.rsp, &general.rbp,
                                        &general.rsi, &general.rdi, &general.r8,  &general.r9,  &general.r10, &general.r11,
                                        &general.r12, &general.r13, &general.r14, &general.r15};
    return *in_order[number];
  }
  uint8_t* xmm(int number) { return (uint8_t*)vectors.xmm_space + 16 * number; }
};

State empty() {
  State state;
  ptrace(PTRACE_GETREGS, child, nullptr, &state.general);
  ptrace(PTRACE_GETFPREGS, child, nullptr, &state.vectors);
  return state;
}

State execute(const State& from) {
  State state = from;
  memcpy(data, state.memory.data(), kData);
  ptrace(PTRACE_SETREGS, child, nullptr, &state.general);
  ptrace(PTRACE_SETFPREGS, child, nullptr, &state.vectors);
  ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr);
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFSTOPPED(status)) fprintf(stderr, "the process ended\n"), exit(2);
  state.signal = WSTOPSIG(status);
  ptrace(PTRACE_GETREGS, child, nullptr, &state.general);
  ptrace(PTRACE_GETFPREGS, child, nullptr, &state.vectors);
  memcpy(state.memory.data(), data, kData);
  return state;
}

// An instruction: prefixes, opcode, a memory operand with a small displacement or none, and bytes that may be immediates.
std::vector<uint8_t> any() {
  std::vector<uint8_t> bytes;
  const uint8_t prefixes[] = {0x66, 0xf2, 0xf3};
  for (unsigned left = one_of(4) == 0 ? 2 : one_of(2); left--;) bytes.push_back(prefixes[one_of(3)]);
  if (one_of(2)) bytes.push_back((uint8_t)(0x40 | one_of(16)));
  if (one_of(2)) bytes.push_back(0x0f);
  bytes.push_back((uint8_t)one_of(256));
  uint8_t modrm = (uint8_t)one_of(256);
  if ((modrm >> 6) == 0 && (modrm & 7) == 5) modrm |= 0x40;
  bytes.push_back(modrm);
  if ((modrm >> 6) != 3 && (modrm & 7) == 4) {
    uint8_t sib = (uint8_t)one_of(256);
    bytes.push_back((sib & 7) == 5 ? (uint8_t)(sib & ~1) : sib);
  }
  if ((modrm >> 6) == 1) bytes.push_back((uint8_t)one_of(256));
  if ((modrm >> 6) == 2) for (uint8_t byte : {(uint8_t)one_of(256), (uint8_t)one_of(2), (uint8_t)0, (uint8_t)0}) bytes.push_back(byte);
  while (bytes.size() < 24) bytes.push_back((uint8_t)(one_of(3) ? one_of(256) : one_of(8)));
  return bytes;
}

uint64_t value() {
  switch (one_of(5)) {
    case 0: return one_of(300);
    case 3: return (uint64_t)data + 512 + one_of(3072);
    case 1: return draw() >> one_of(64);
    default: return draw();
  }
}
uint64_t place_in_data() { return (uint64_t)data + 1024 + 16 * one_of(128) + (one_of(4) ? 0 : one_of(16)); }

uint64_t operand_at(const Instruction& it, State& state) {
  uint64_t at = (uint64_t)it.displacement;
  if (it.relative) at += state.general.rip + (uint64_t)it.length;
  if (it.base != stepping::kNone) at += state.reg(it.base);
  if (it.index != stepping::kNone) at += state.reg(it.index) * (uint64_t)it.scale;
  return at;
}

// What the instruction is said to read is the same in both, all else is drawn anew.
void draw_states(const Instruction& it, State& a, State& b) {
  for (State* state : {&a, &b}) {
    for (int r = 0; r < 16; ++r) state->reg(r) = value();
    for (int r = 0; r < 16; ++r)
      for (int i = 0; i < 16; ++i) state->xmm(r)[i] = (uint8_t)draw();
    for (auto& byte : state->memory) byte = (uint8_t)draw();
    state->reg(kStack) = (uint64_t)data + kData / 2;
    state->general.rip = (uint64_t)code;
    state->general.eflags = (state->general.eflags & ~kFlags) | (draw() & kFlags) | 2;
  }
  b.reg(kStack) = a.reg(kStack);
  if (one_of(4) == 0)   // floating-point numbers that do not overflow
    for (int r = 0; r < 16; ++r)
      for (int i = 3; i < 16; i += 4) a.xmm(r)[i] = 0x3f;
  unsigned read = it.also;
  if (it.base != stepping::kNone && it.base != kStack) a.reg(it.base) = place_in_data(), read |= 1u << it.base;
  if (it.index != stepping::kNone && it.index != it.base) a.reg(it.index) = one_of(32), read |= 1u << it.index;
  if (it.does == Does::kString) a.reg(6) = place_in_data(), a.reg(7) = place_in_data(), a.reg(1) = 1 + one_of(9);
  bool vectors = it.does == Does::kVector;
  for (int r = 0; r < 16; ++r)
    if (read >> r & 1) b.reg(r) = a.reg(r);
  auto equal = [&](int number, bool high, bool is_xmm) {
    if (number == stepping::kNone) return;
    if (is_xmm) memcpy(b.xmm(number), a.xmm(number), (size_t)it.bytes);
    else if (!(read >> number & 1)) memcpy((char*)&b.reg(number) + high, (char*)&a.reg(number) + high, (size_t)std::min(8, it.bytes));
  };
  if (it.reads_target) equal(it.target, it.target_high, it.target_is_xmm || vectors);
  equal(it.source, it.source_high, it.source_is_xmm || (vectors && !it.source_is_memory));
  if (it.reads_flags) b.general.eflags = a.general.eflags;
  if (it.does == Does::kString && it.loads && it.bytes < 8)
    memcpy(&b.memory[a.reg(6) - (uint64_t)data], &a.memory[a.reg(6) - (uint64_t)data], 8);
  if (it.memory && (it.source_is_memory || (it.target_is_memory && it.reads_target))) {
    uint64_t at = operand_at(it, a) - (uint64_t)data;
    for (int i = 0; i < it.bytes; ++i)
      if (at + (uint64_t)i < kData) b.memory[at + (uint64_t)i] = a.memory[at + (uint64_t)i];
  }
}

struct Bytes { const uint8_t *before, *after; size_t count; };

std::vector<Bytes> places(State& before, State& after) {
  std::vector<Bytes> all;
  for (int r = 0; r < 16; ++r) all.push_back({(uint8_t*)&before.reg(r), (uint8_t*)&after.reg(r), 8});
  for (int r = 0; r < 16; ++r) all.push_back({before.xmm(r), after.xmm(r), 16});
  all.push_back({before.memory.data(), after.memory.data(), kData});
  all.push_back({(uint8_t*)&before.general.rip, (uint8_t*)&after.general.rip, 8});
  return all;
}

std::string breaks(const Instruction& it, State& a, State& b) {
  State after_a = execute(a), after_b = execute(b);
  if (after_a.signal != after_b.signal) return "ends by another signal";
  if (after_a.signal != SIGTRAP) return "";
  if (memcmp(after_a.vectors.st_space, after_b.vectors.st_space, sizeof after_a.vectors.st_space)) return "another x87 register";
  if (after_a.vectors.ftw != after_b.vectors.ftw || after_a.vectors.fop != after_b.vectors.fop) return "another state of x87";
  if (after_a.vectors.mxcsr != after_b.vectors.mxcsr || after_a.vectors.cwd != after_b.vectors.cwd || after_a.vectors.swd != after_b.vectors.swd)
    return "another state of floating point";
  for (uint64_t flag = 1; flag <= kFlags; flag <<= 1)
    if ((kFlags & flag) && ((after_a.general.eflags ^ after_b.general.eflags) & flag))
      if (((after_a.general.eflags ^ a.general.eflags) & flag) || ((after_b.general.eflags ^ b.general.eflags) & flag)) return "other flags";
  static std::bitset<1 << 16> had;   // the pairs of bytes that there were before, at one place
  bool looked = false;
  auto in_a = places(a, after_a), in_b = places(b, after_b);
  bool moves = it.does == Does::kMove || it.does == Does::kString;
  static const char* const kinds[] = {"general register", "vector register", "memory", "next instruction"};
  for (size_t k = 0; k < in_a.size(); ++k)
    for (size_t i = 0; i < in_a[k].count; ++i) {
      uint8_t x = in_a[k].after[i], y = in_b[k].after[i];
      if (x == y || (x == in_a[k].before[i] && y == in_b[k].before[i])) continue;
      if (moves) {
        if (!looked) {
          had.reset();
          for (size_t j = 0; j < in_a.size(); ++j)
            for (size_t n = 0; n < in_a[j].count; ++n) had.set((size_t)in_a[j].before[n] << 8 | in_b[j].before[n]);
        }
        looked = true;
        if (had.test((size_t)x << 8 | y)) continue;
      }
      size_t kind = k < 16 ? 0 : k < 32 ? 1 : k - 30;
      return std::string("another ") + kinds[kind] + (kind < 2 ? " " + std::to_string(k & 15) : "");
    }
  return "";
}

}  // namespace

int main(int, char** words) {
  draw.seed(strtoull(words[1], nullptr, 10));
  code = (uint8_t*)mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  data = (uint8_t*)mmap(nullptr, kData, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (code == MAP_FAILED || data == MAP_FAILED) return 2;
  child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return 3;
  const State start = empty();
  long executed = 0, wanted = atol(words[2]);
  while (executed < wanted) {
    std::vector<uint8_t> bytes = any();
    Instruction it = stepping::decode(bytes.data(), bytes.size());
    if (it.does == Does::kUnknown || it.of_thread || it.relative) continue;
    State a = start, b = start;
    draw_states(it, a, b);
    memcpy(code, bytes.data(), bytes.size());
    ++executed;
    std::string what = breaks(it, a, b);
    if (what.empty()) continue;
    std::string text;
    char digits[4];
    for (int i = 0; i < it.length; ++i) snprintf(digits, sizeof digits, "%02x", bytes[(size_t)i]), text += digits;
    printf("%s %s\n", text.c_str(), what.c_str());
  }
  printf("%ld executed\n", executed);
  kill(child, SIGKILL);
}
