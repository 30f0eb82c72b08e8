// Stepped calls (stepping.h): the process that steps, and the rules.
//
// A value that is equal in both processes is a number. One that differs and points to the same place of the same region in
// both is an address: it may be moved, followed, compared with other addresses and with numbers near zero, aligned, and added to. All else
// that differs was made from an address; such bits may be moved, but nothing may be computed from them, nor decided.
#include "stepping.h"

#if defined(__x86_64__)
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <unordered_map>
#include <vector>

#include "instruction.h"
#include "library_calls.h"
#include "sides.h"

namespace stepping {
namespace {

constexpr uint64_t kMostSteps = 400'000;
constexpr uint64_t kLowBits = 4096;          // below, addresses are alike in both processes
constexpr int64_t kNear = 4096;              // of zero: what addresses, and distances between them, may be compared with
constexpr uint64_t kDirtied = 1024;          // of the stack, by a library function, cleared after it
constexpr uint64_t kMostBlock = 1ull << 32;
constexpr uint64_t kMostCleared = 1 << 16, kRedZone = 128;
constexpr int kStackPointer = 4;
constexpr int64_t kGuard = 0x28;             // of stacks, beyond the thread's begin

double now_s() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// What is known of a register beyond its value: a distance of two addresses, one with a number added (kFarther), the lower
// half of an address.
enum class Mark : uint8_t { kNone, kDistance, kFarther, kHalf };

std::string hex(const uint8_t* code, size_t count) {
  std::string text;
  char digits[4];
  for (size_t i = 0; i < count; ++i) snprintf(digits, sizeof digits, "%02x", code[i]), text += digits;
  return text;
}

class Stepper {
 public:
  Stepper(const int (&processes)[2], double deadline_s, const How& how) : deadline_s_(deadline_s), clear_(how.clear), fixed_(how.fixed) {
    sides_.a.pid = processes[0], sides_.b.pid = processes[1];
  }

  std::string run() {
    std::string missing = begin();
    if (missing.rfind(kAgain, 0) == 0) return missing;
    if (!finding_.empty()) return finding_;
    if (!missing.empty()) return "missing " + missing;
    const uint64_t top = sides_.a.regs.rsp;
    lowest_ = top;
    caller_ = sides_.memory({top, sides_.b.regs.rsp});
    while (finding_.empty() && died_.empty()) {
      Side &a = sides_.a, &b = sides_.b;
      if (a.regs.rip - a.says.loaded != b.regs.rip - b.says.loaded && (inside(a) || inside(b))) {
        found("takes another way");
      } else if (inside(a)) {
        if (++steps_ > kMostSteps) found("executes more than " + std::to_string(kMostSteps) + " instructions in one call, too many to be followed:");
        else one();
        if (now_s() > deadline_s_) found("takes too long to be followed:");
      } else if (a.regs.rsp == top + 8 && a.regs.rip == caller_.a && b.regs.rip == caller_.b ? ended() : outside() && left_) {
        return "steps " + std::to_string(steps_);
      }
    }
    if (finding_.empty()) found("does not come to its end when it is followed: " + (died_.empty() ? "its process ended" : died_) + ":");
    return finding_;
  }

 private:
  bool inside(const Side& side) const { return side.regs.rip >= side.says.text_begin && side.regs.rip < side.says.text_end; }

  void found(const std::string& what) {
    if (finding_.empty()) finding_ = "finding " + std::to_string(last_) + " " + what;
  }

  // Both processes, run to the first instruction of the function to be called; or why not.
  std::string begin() {
    for (Side* side : sides_.both()) {
      if (!side->stopped()) return "at its start, the process that was to be stepped " + side->how;
      ptrace(PTRACE_SETOPTIONS, side->pid, nullptr, (void*)PTRACE_O_EXITKILL);
      if (ptrace(PTRACE_CONT, side->pid, nullptr, nullptr) != 0) return std::string("ptrace: ") + strerror(errno);
    }
    for (Side* side : sides_.both()) {   // the candidate is loaded: what happens from now on is its own doing
      if (!comes_to_trap(*side)) return "the process that was to be stepped " + side->how;
      if (ptrace(PTRACE_CONT, side->pid, nullptr, nullptr) != 0) return std::string("ptrace: ") + strerror(errno);
    }
    for (Side* side : sides_.both()) {
      if (!comes_to_trap(*side)) {
        found("does not come to the end of an earlier call when it is followed:");
        return "";
      }
      side->read_registers();
      if (!side->read(side->regs.rdi, &side->says, sizeof side->says)) return "memory of the process cannot be read";
      side->imports.resize(std::min<uint64_t>(side->says.count, 1 << 16));
      if (!side->read(side->says.imports, side->imports.data(), side->imports.size() * sizeof(Import))) return "memory of the process cannot be read";
      if (!to(*side, side->says.entry)) return "its first instruction was not reached";
    }
    const Side &a = sides_.a, &b = sides_.b;
    if (a.imports.size() != b.imports.size() || a.says.text_end - a.says.text_begin != b.says.text_end - b.says.text_begin)
      return "the two processes are not alike";
    if (a.says.loaded == b.says.loaded) return "the system loads programs at fixed addresses";
    if (!differ_in_each_byte()) return std::string(kAgain) + " " + std::to_string(alike());
    text_.resize(a.says.text_end - a.says.text_begin);
    if (!a.read(a.says.text_begin, text_.data(), text_.size())) return "its code cannot be read";
    return "";
  }

  // Runs on to an int3. False where it has ended.
  static bool comes_to_trap(Side& side) {
    int by = 0;
    while (side.stopped(&by) && by != SIGTRAP) ptrace(PTRACE_CONT, side.pid, nullptr, (void*)(long)by);
    return !side.ended;
  }

  uint64_t differing(int compared) const {
    const int which = kCompared[compared];
    return sides_.a.says.regions[which].base ^ sides_.b.says.regions[which].base;
  }
  unsigned alike() const {
    unsigned mask = 0;
    for (int i = 0; i < kParts; ++i) mask |= (unsigned)((differing(i / 2) & kWithin[i % 2]) == 0) << i;
    return mask;
  }
  // Whether no byte of an address is equal in both by chance: libraries, heap, stack, candidate.
  bool differ_in_each_byte() const {
    for (int k = 0; k < kParts / 2; ++k)
      for (uint64_t part : {0xe00000ull, 0xff000000ull, 0xff00000000ull})
        if ((differing(k) & part) == 0) return false;
    return (alike() & ~fixed_) == 0;
  }

  // Runs one process until it is at `address`, which must be where it goes next.
  bool to(Side& side, uint64_t address) {
    uint8_t before = 0;
    if (!side.set_byte(address, 0xcc, &before)) return false;
    if (ptrace(PTRACE_CONT, side.pid, nullptr, nullptr) != 0 || !side.stopped()) return false;
    return arrive(side, address, before);
  }
  bool arrive(Side& side, uint64_t address, uint8_t before) {
    side.read_registers();
    if (side.regs.rip != address + 1) return false;
    side.set_byte(address, before, nullptr);
    side.regs.rip = address;
    side.write_registers();
    return true;
  }
  // Both after the call, in wait_here().
  bool ended() {
    for (Side* side : sides_.both()) {
      int by = 0;
      if (ptrace(PTRACE_CONT, side->pid, nullptr, nullptr) != 0 || !side->stopped(&by) || by != SIGTRAP) {
        died_ = "its process ended";
        return false;
      }
    }
    return true;
  }

  // --- values ---------------------------------------------------------------------------------------

  Kind kind(Pair v, int bytes = 8) const { return sides_.kind(v, bytes); }
  Pair general(int number, bool high = false) const { return sides_.general(number, high); }
  Mark mark(int number) const {
    Pair now = general(number);
    const auto& [what, then] = marks_[(size_t)number];
    return then.a == now.a && then.b == now.b ? what : Mark::kNone;
  }
  void set_mark(int number, Mark what) { marks_[(size_t)number] = {what, general(number)}; }

  Pair place(const Instruction& it) const {
    auto in = [&](const Side& side) {
      uint64_t at = (uint64_t)it.displacement;
      if (it.of_thread) at += side.regs.fs_base;
      if (it.relative) at += side.regs.rip + (uint64_t)it.length;
      if (it.base != kNone) at += side.general(it.base);
      if (it.index != kNone) at += side.general(it.index) * (uint64_t)it.scale;
      return at;
    };
    return {in(sides_.a), in(sides_.b)};
  }

  // --- one instruction --------------------------------------------------------------------------------

  struct Operand { Pair value; Kind kind; Mark mark; };

  Operand operand(int number, bool high, bool is_memory, Pair at, int bytes) const {
    Pair value = is_memory ? sides_.memory(at, std::min(bytes, 8)) : general(number, high);
    Mark m = is_memory ? Mark::kNone : mark(number);
    return {{cut(value.a, bytes), cut(value.b, bytes)}, kind(value, bytes), m};
  }

  const Instruction& instruction() {
    uint64_t offset = sides_.a.regs.rip - sides_.a.says.text_begin;
    auto [it, fresh] = decoded_.try_emplace(offset);
    if (fresh) it->second = decode(text_.data() + offset, text_.size() - offset);
    return it->second;
  }

  bool advance(bool returns = false) {
    for (Side* side : sides_.both())
      if (ptrace(PTRACE_SINGLESTEP, side->pid, nullptr, nullptr) != 0) { died_ = "its process ended"; return false; }
    for (Side* side : sides_.both()) {
      int by = 0;
      if (!side->stopped(&by)) { died_ = "its process ended"; return false; }
      if (by != SIGTRAP) { died_ = std::string("its process was stopped by ") + strsignal(by); return false; }
      side->read_registers();
    }
    if (clear_ && returns) clear_below();
    return true;
  }

  // Both, to the next instruction, however often this one is repeated.
  void past(const Instruction& it) {
    for (Side* side : sides_.both())
      if (!to(*side, side->regs.rip + (uint64_t)it.length)) died_ = "its process ended";
  }

  // A function that returns leaves addresses on the stack, which end up in the padding of structures.
  void clear_below() {
    const uint64_t used = sides_.a.regs.rsp - std::min<uint64_t>(lowest_, sides_.a.regs.rsp) + kRedZone;
    for (Side* side : sides_.both()) side->clear(side->regs.rsp - std::min(used, kMostCleared), side->regs.rsp);
    lowest_ = sides_.a.regs.rsp;
  }

  void one() {
    last_ = sides_.a.regs.rip - sides_.a.says.loaded;
    const Instruction& it = instruction();
    Pair at{};
    if (it.memory) {
      for (int part : {it.base, it.index})
        if (part != kNone && kind(general(part)) == Kind::kOther) return found("reads a table, or computes, at a place that it made from an address");
      at = place(it);
      if (!it.load_effective && kind(at) == Kind::kOther) return found("reads or writes at a place that it made from an address");
    }
    if (kind(general(kStackPointer)) != Kind::kAddress) return found("has its stack at a place that it made from an address");
    lowest_ = std::min<uint64_t>(lowest_, sides_.a.regs.rsp);
    const bool has_target = it.target != kNone || it.target_is_memory;
    Operand target{}, source{};
    if (it.does != Does::kVector && it.reads_target && has_target && !it.target_is_xmm)
      target = operand(it.target, it.target_high, it.target_is_memory, at, it.bytes);
    const bool has_source = (it.source != kNone || it.source_is_memory) && !it.source_is_xmm;
    if (it.does != Does::kVector && has_source) source = operand(it.source, it.source_high, it.source_is_memory, at, it.bytes);
    if (it.has_immediate && !has_source) source = {{cut((uint64_t)it.immediate, it.bytes), cut((uint64_t)it.immediate, it.bytes)}, Kind::kEqual, Mark::kNone};
    if (flags_of_rest_ && it.reads_flags) return found("decides by a part of an address");
    if (flags_of_order_ && it.reads_flags && !it.asks_equality) return found("asks which of two addresses of unlike memory is greater");
    if (checks_guard(it, target, source)) {
      if (advance()) flags_of_rest_ = false, flags_of_order_ = true;
      return;
    }
    if (reads_rest(it) || makes_rest(it, target, source)) return follow_rest(it, target, source);
    if (it.writes != kNone) rest_[(size_t)it.writes] = false;
    if (it.sets_flags) flags_of_rest_ = flags_of_order_ = false;
    switch (it.does) {
      case Does::kUnknown: {
        uint64_t offset = sides_.a.regs.rip - sides_.a.says.text_begin;
        return found("executes an instruction that cannot be followed (" + hex(text_.data() + offset, std::min<size_t>(8, text_.size() - offset)) + ")");
      }
      case Does::kMove: return move(it, source);
      case Does::kAdd: return add(it, target, source, at);
      case Does::kAnd: if (!aligns(it, target, source)) return found("takes a part of an address"); break;
      case Does::kTest: if (!tests(it, target, source)) return found("decides by bits of an address"); break;
      case Does::kCompare: if (!compares(it, target, source)) return found("compares an address with a number"); break;
      case Does::kCompute: {
        bool equal = target.kind == Kind::kEqual && source.kind == Kind::kEqual;
        if (it.source_is_memory && it.bytes > 8) equal = equal && sides_.same_memory(at, (uint64_t)it.bytes);
        for (int r = 0; r < 16; ++r) equal = equal && (!(it.also >> r & 1) || kind(general(r), it.bytes) == Kind::kEqual);
        if (!equal) return found("computes with an address as with a number");
        break;
      }
      case Does::kString:
        if (!moves_string(it)) return;
        if (it.repeats) return past(it);
        break;
      case Does::kVector: {
        sides_.read_vectors();
        bool equal = !(it.target != kNone && it.reads_target) || sides_.same_vector(it.target, (size_t)it.bytes);
        if (it.source != kNone) equal = equal && sides_.same_vector(it.source, (size_t)it.bytes);
        if (it.source_is_memory) equal = equal && sides_.same_memory(at, (uint64_t)it.bytes);
        if (!equal) return found("computes with an address as with a number");
        break;
      }
    }
    advance();
  }

  // Whether what guards the stack, which is drawn for each process, is compared with itself: only whether it is equal is asked.
  bool checks_guard(const Instruction& it, const Operand& target, const Operand& source) const {
    if (!it.of_thread || it.displacement != kGuard || it.base != kNone || it.index != kNone || it.bytes != 8) return false;
    if (!it.source_is_memory && !it.target_is_memory) return false;
    bool asks = it.subtracts || it.does == Does::kCompare || (it.bitwise && it.does == Does::kCompute);
    return asks && target.value.a == source.value.a && target.value.b == source.value.b;
  }

  bool moves_string(const Instruction& it) {
    const Pair times = it.repeats ? general(1) : Pair{1, 1}, from = general(6), to = general(7);
    auto refuse = [&](const char* what) { found(what); return false; };
    if (kind(times) != Kind::kEqual) return refuse("copies as much as an address says");
    if ((it.loads && kind(from) == Kind::kOther) || (it.stores && kind(to) == Kind::kOther))
      return refuse("reads or writes at a place that it made from an address");
    if (it.loads && it.stores) return to.a - from.a >= times.a * (uint64_t)it.bytes || to.a == from.a || refuse("copies memory onto itself");
    const Pair value = it.loads ? sides_.memory(from, it.bytes) : general(0);
    return it.bytes == 8 || kind(value, it.bytes) != Kind::kOther || refuse("takes a part of an address");
  }

  // --- the rest of an address -----------------------------------------------------------------------
  // Compilers set the lowest byte of a register and let the others have the rest of what was in it: `sete %dl`, and then
  // `and %edx, %eax`, of which nothing but %al is used. Such registers are followed: their lowest byte is a number, and of
  // the rest nothing may become more than the rest of another register, nor flags that are read.

  bool reads_rest(const Instruction& it) const {
    auto rest = [&](int number) { return number != kNone && rest_[(size_t)number]; };
    if (it.memory && (rest(it.base) || rest(it.index))) return true;
    for (int r = 0; r < 16; ++r)
      if ((it.also >> r & 1) && rest(r)) return true;
    if (it.reads_target && !it.target_is_xmm && rest(it.target) && (it.bytes > 1 || it.target_high)) return true;
    return !it.source_is_xmm && rest(it.source) && (it.bytes > 1 || it.source_high);
  }
  static bool among_registers(const Instruction& it) {
    return it.bytes >= 4 && it.target != kNone && !it.target_is_xmm && !it.source_is_xmm && !it.memory;
  }
  static bool asks_low_byte(const Instruction& it, const Operand& target, const Operand& source) {
    return (it.does == Does::kAnd || it.does == Does::kTest) && it.has_immediate && source.value.a < 256 && low_byte_alike(target);
  }
  static bool low_byte_alike(const Operand& one) { return (uint8_t)one.value.a == (uint8_t)one.value.b; }
  // Whether the lowest bytes of two registers are combined, and the others with them, which are a part of an address.
  bool makes_rest(const Instruction& it, const Operand& target, const Operand& source) const {
    if (!it.low_alone || it.same || !among_registers(it) || it.does == Does::kTest || it.does == Does::kCompare) return false;
    if (target.kind == Kind::kEqual && source.kind == Kind::kEqual) return false;
    if (it.does == Does::kAdd) return false;
    if (it.does == Does::kAnd && (aligns(it, target, source) || target.kind == Kind::kAddress || source.kind == Kind::kAddress)) return false;
    return low_byte_alike(target) && low_byte_alike(source);
  }
  void follow_rest(const Instruction& it, const Operand& target, const Operand& source) {
    bool moves = it.does == Does::kMove && it.source != kNone && it.also == 0;
    bool combines = it.low_alone && low_byte_alike(target) && low_byte_alike(source) && it.does != Does::kTest && it.does != Does::kCompare;
    if (asks_low_byte(it, target, source) && (it.does == Does::kTest || it.target != kNone) && !it.memory) {
      if (!advance()) return;
      if (it.does == Does::kAnd) rest_[(size_t)it.target] = false;
      flags_of_rest_ = flags_of_order_ = false;
      return;
    }
    if (!among_registers(it) || !(moves || combines)) return found("takes a part of an address");
    if (!advance()) return;
    rest_[(size_t)it.target] = true;
    set_mark(it.target, Mark::kNone);
    if (combines && it.sets_flags) flags_of_rest_ = true;
  }

  void move(const Instruction& it, Operand source) {
    if (it.source_is_xmm && it.narrows) {
      sides_.read_vectors();
      Pair low = sides_.vector_low(it.source);
      source = {low, kind(low, it.bytes), Mark::kNone};
    }
    Mark after = source.mark;
    if (it.narrows && source.kind == Kind::kOther) {
      bool half = it.bytes == 4 && !it.source_is_memory && !it.source_is_xmm && !it.target_is_memory && it.target != kNone &&
                  kind(general(it.source)) == Kind::kAddress;
      if (!half) return found("takes a part of an address");
      after = Mark::kHalf;
    }
    const Mark before = it.conditional && it.target != kNone ? mark(it.target) : Mark::kNone;
    const Pair kept = it.conditional && it.target != kNone ? general(it.target) : Pair{};
    if (!advance(it.returns) || it.target == kNone || it.target_is_xmm) return;
    const Pair now = general(it.target);
    const bool left = it.conditional && (now.a == kept.a || now.b == kept.b);   // or the same was moved
    set_mark(it.target, left ? (before == after ? after : Mark::kNone) : after);
  }

  // The distance of two addresses in 32 bits: a number, if they are in one region. Its flags are not: a borrow is rare.
  bool subtracts_halves(const Instruction& it, const Operand& target, const Operand& source) const {
    auto half = [&](int number) { return number != kNone && (kind(general(number)) == Kind::kAddress || mark(number) == Mark::kHalf); };
    return it.subtracts && it.bytes == 4 && !it.memory && target.kind == Kind::kOther && source.kind == Kind::kOther && half(it.target) &&
           half(it.source) && (uint32_t)(target.value.a - source.value.a) == (uint32_t)(target.value.b - source.value.b);
  }

  void add(const Instruction& it, const Operand& target, const Operand& source, Pair at) {
    if (subtracts_halves(it, target, source)) {
      if (advance()) flags_of_rest_ = true, set_mark(it.target, Mark::kNone);
      return;
    }
    bool distant = target.mark == Mark::kDistance && source.kind == Kind::kEqual && near(source);
    bool apart = target.kind == Kind::kAddress && source.kind == Kind::kAddress;
    if (apart && !sides_.comparable(target.value, source.value)) return found("computes how far unlike memory is apart");
    for (const Operand& one : {target, source})
      if (one.kind == Kind::kOther && !distant) return found("computes with an address as with a number");
    if (!advance()) return;
    Pair result = it.load_effective ? at : it.target_is_memory ? sides_.memory(at, it.bytes) : general(it.target);
    Kind made = kind(result, it.bytes);
    if (made == Kind::kOther && !(it.target != kNone && (distant || apart))) return found("makes a number of an address");
    if (it.target != kNone) set_mark(it.target, made != Kind::kOther ? Mark::kNone : distant ? Mark::kFarther : Mark::kDistance);
  }

  static bool near(const Operand& number) { return (uint64_t)((int64_t)number.value.a + kNear) <= 2 * kNear; }
  static bool low(const Operand& mask) { return mask.kind == Kind::kEqual && mask.value.a < kLowBits; }
  static bool equal_under(const Operand& one, const Operand& mask) {
    return ((one.value.a ^ one.value.b) & mask.value.a) == 0;
  }
  bool aligns(const Instruction& it, const Operand& target, const Operand& source) const {
    if (target.kind == Kind::kEqual && source.kind == Kind::kEqual) return true;
    if (it.same) return target.kind == Kind::kAddress;
    const Operand &mask = source.kind == Kind::kEqual ? source : target, &other = source.kind == Kind::kEqual ? target : source;
    if (low(mask)) return equal_under(other, mask);
    bool rounds = mask.kind == Kind::kEqual && (int64_t)mask.value.a < 0 && (int64_t)mask.value.a >= -(int64_t)kLowBits;
    return it.bytes == 8 && rounds && other.kind == Kind::kAddress;
  }
  bool tests(const Instruction& it, const Operand& target, const Operand& source) const {
    if (target.kind == Kind::kEqual && source.kind == Kind::kEqual) return true;
    if (it.same) return it.bytes == 8 && target.kind == Kind::kAddress;
    const Operand &mask = source.kind == Kind::kEqual ? source : target, &other = source.kind == Kind::kEqual ? target : source;
    return low(mask) && equal_under(other, mask);
  }
  bool compares(const Instruction& it, const Operand& one, const Operand& other) {
    if (one.kind == Kind::kEqual && other.kind == Kind::kEqual) return true;
    if (it.bytes < 8) return false;
    if (one.kind == Kind::kAddress && other.kind == Kind::kAddress) {
      flags_of_order_ = !sides_.comparable(one.value, other.value);
      return true;
    }
    auto with_number = [](const Operand& x, const Operand& n) {
      // Null, as compilers ask for it (less than 1), or an end (-1): no address is near zero.
      return n.kind == Kind::kEqual && near(n) && (x.kind == Kind::kAddress || x.mark == Mark::kDistance || x.mark == Mark::kFarther);
    };
    return with_number(one, other) || with_number(other, one);
  }

  // --- library functions ------------------------------------------------------------------------------

  // Runs a library function in both, up to where it returns to. False where that cannot be.
  bool outside() {
    Side &a = sides_.a, &b = sides_.b;
    auto refuse = [&](const std::string& what) { found(what); return false; };
    size_t which = 0;
    while (which < a.imports.size() && a.imports[which].address != a.regs.rip) ++which;
    if (which == a.imports.size() || b.imports[which].address != b.regs.rip) return refuse("calls what it does not import");
    for (int number : kArguments)
      if (rest_[(size_t)number]) return refuse("takes a part of an address");
    const std::string takes = a.imports[which].takes;
    std::string what = arguments_finding(sides_, takes.c_str());
    if (!what.empty()) return refuse(what);
    const bool puts = !takes.empty() && takes.back() == 'B';
    const Pair first = general(7);
    const uint64_t room = std::max(general(6).a, general(puts ? 2 : 7).a);   // of the block, or how it is aligned
    Pair back{};
    died_ = "its process ended";
    if (!a.read(a.regs.rsp, &back.a, 8) || !b.read(b.regs.rsp, &back.b, 8)) return false;
    left_ = back.a == caller_.a && back.b == caller_.b;   // the last call of the function: what follows is the process that makes the calls
    if (!left_ && (back.a < a.says.text_begin || back.a >= a.says.text_end)) return refuse("has a library function return to another one");
    if (left_) {
      died_.clear();
      return ended();
    }
    uint8_t before[2] = {};
    if (!a.set_byte(back.a, 0xcc, &before[0]) || !b.set_byte(back.b, 0xcc, &before[1])) return false;
    for (Side* side : sides_.both())
      if (ptrace(PTRACE_CONT, side->pid, nullptr, nullptr) != 0) return false;
    for (Side* side : sides_.both()) {
      const bool is_a = side == &a;
      int by = 0;
      if (!side->stopped(&by) || by != SIGTRAP || !arrive(*side, is_a ? back.a : back.b, before[!is_a])) {
        died_ = "a library function did not return";
        return false;
      }
      if (clear_) side->clear(side->regs.rsp - kDirtied, side->regs.rsp);
    }
    died_.clear();
    flags_of_rest_ = true;   // whatever it left there
    rest_[0] = false;   // the result
    if (takes.find_first_of("AB") != takes.npos) {
      const Pair at = puts ? sides_.memory(first) : general(0);
      const bool given = puts ? (uint32_t)general(0).a == 0 && (uint32_t)general(0).b == 0 : at.a != 0 && at.b != 0;
      if (given && room < kMostBlock) sides_.blocks.push_back({{at.a, at.a, at.a + room}, {at.b, at.b, at.b + room}});
    }
    return true;
  }

  Sides sides_;
  Pair caller_;              // where the function returns to
  double deadline_s_;
  bool clear_;
  unsigned fixed_;
  uint64_t steps_ = 0, last_ = 0;   // last_: where the latest instruction of the candidate lies in its object
  uint64_t lowest_ = 0;      // how low the stack was since it was cleared
  bool left_ = false;
  std::string finding_, died_;
  std::vector<uint8_t> text_;
  std::unordered_map<uint64_t, Instruction> decoded_;
  std::array<std::pair<Mark, Pair>, 16> marks_{};
  std::array<bool, 16> rest_{};   // registers of which nothing but the lowest byte is a number
  bool flags_of_rest_ = false;    // flags were set by the rest of such registers
  bool flags_of_order_ = false;   // by addresses whose order may differ from process to process
};

}  // namespace

std::string step(const int (&processes)[2], double deadline_s, const How& how) { return Stepper(processes, deadline_s, how).run(); }
void go_on(const int (&processes)[2]) {
  for (int process : processes) ptrace(PTRACE_CONT, process, nullptr, nullptr);
}
void be_stepped() {
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(kNotTraced);
}

}  // namespace stepping

#else

namespace stepping {
std::string step(const int (&)[2], double, const How&) { return "missing host code is followed on x86-64 only"; }
void go_on(const int (&)[2]) {}
void be_stepped() {}
}  // namespace stepping

#endif
