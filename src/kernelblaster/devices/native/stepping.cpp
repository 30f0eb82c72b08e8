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
#include <unordered_map>

#include "instruction.h"

namespace stepping {
namespace {

constexpr uint64_t kMostSteps = 400'000;
constexpr uint64_t kLowBits = 4096;          // below, addresses are alike in both processes
constexpr int64_t kNear = 4096;              // of zero: what addresses, and distances between them, may be compared with
constexpr int kArguments[] = {7, 6, 2, 1, 8, 9};   // rdi rsi rdx rcx r8 r9
constexpr size_t kBytesLookedAt = 256;

double now_s() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct Side {
  int pid = 0;
  Announcement says{};
  user_regs_struct regs{};
  user_fpregs_struct vectors{};
  std::vector<Import> imports;

  bool ended = false;
  std::string how;
  uint64_t general(int number) const {
    const unsigned long long* in_order[16] = {&regs.rax, &regs.rcx, &regs.rdx, &regs.rbx, &regs.rsp, &regs.rbp,
                                              &regs.rsi, &regs.rdi, &regs.r8,  &regs.r9,  &regs.r10, &regs.r11,
                                              &regs.r12, &regs.r13, &regs.r14, &regs.r15};
    return *in_order[number];
  }
  // False where it is not mapped.
  bool read(uint64_t address, void* into, size_t bytes) const {
    for (size_t done = 0; done < bytes; done += 8) {
      errno = 0;
      long word = ptrace(PTRACE_PEEKDATA, pid, (void*)(address + done), nullptr);
      if (errno) return false;
      memcpy((char*)into + done, &word, std::min<size_t>(8, bytes - done));
    }
    return true;
  }
  bool set_byte(uint64_t address, uint8_t value, uint8_t* before) const {
    errno = 0;
    long word = ptrace(PTRACE_PEEKTEXT, pid, (void*)address, nullptr);
    if (errno) return false;
    if (before) *before = (uint8_t)word;
    return ptrace(PTRACE_POKETEXT, pid, (void*)address, (void*)((word & ~0xffl) | value)) == 0;
  }
  void read_registers() { ptrace(PTRACE_GETREGS, pid, nullptr, &regs); }
  // Waits until it stops. False where it has ended; `how` says in words how.
  bool stopped(int* by = nullptr) {
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
};

struct Pair { uint64_t a = 0, b = 0; };
enum class Kind { kEqual, kAddress, kOther };
// What is known of a register beyond its value: a distance of two addresses; the lower half of one; a result of a library
// function that depends on what is not equal.
enum class Mark : uint8_t { kNone, kDistance, kHalf, kUnusable };

uint64_t cut(uint64_t value, int bytes) { return bytes >= 8 ? value : value & ((1ull << 8 * bytes) - 1); }

std::string hex(const uint8_t* code, size_t count) {
  std::string text;
  char digits[4];
  for (size_t i = 0; i < count; ++i) snprintf(digits, sizeof digits, "%02x", code[i]), text += digits;
  return text;
}

class Stepper {
 public:
  Stepper(const int (&processes)[2], double deadline_s) : deadline_s_(deadline_s) {
    for (int i = 0; i < 2; ++i) sides_[i].pid = processes[i];
  }

  std::string run() {
    std::string missing = begin();
    if (!missing.empty()) return "missing " + missing;
    const uint64_t top = sides_[0].regs.rsp;
    while (finding_.empty() && died_.empty()) {
      Side &a = sides_[0], &b = sides_[1];
      if (a.regs.rip - a.says.loaded != b.regs.rip - b.says.loaded && (inside(a) || inside(b))) {
        found("takes another way");
      } else if (inside(a)) {
        if (++steps_ > kMostSteps) found("executes more than " + std::to_string(kMostSteps) + " instructions in one call, too many to be followed:");
        else one();
        if (now_s() > deadline_s_) found("takes too long to be followed:");
      } else if (a.regs.rsp == top + 8) {
        return "steps " + std::to_string(steps_);
      } else if (!outside()) {
        break;
      } else if (left_) {
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
    for (Side& side : sides_) {
      if (!side.stopped()) return "at its start, the process that was to be stepped " + side.how;
      ptrace(PTRACE_SETOPTIONS, side.pid, nullptr, (void*)PTRACE_O_EXITKILL);
      if (ptrace(PTRACE_CONT, side.pid, nullptr, nullptr) != 0) return std::string("ptrace: ") + strerror(errno);
    }
    for (Side& side : sides_) {
      int by = 0;
      while (side.stopped(&by) && by != SIGTRAP) ptrace(PTRACE_CONT, side.pid, nullptr, (void*)(long)by);
      if (side.ended) return "the process that was to be stepped " + side.how;
      side.read_registers();
      if (!side.read(side.regs.rdi, &side.says, sizeof side.says)) return "memory of the process cannot be read";
      side.imports.resize(std::min<uint64_t>(side.says.count, 1 << 16));
      if (!side.read(side.says.imports, side.imports.data(), side.imports.size() * sizeof(Import))) return "memory of the process cannot be read";
      if (!to(side, side.says.entry)) return "its first instruction was not reached";
    }
    const Side &a = sides_[0], &b = sides_[1];
    if (a.imports.size() != b.imports.size() || a.says.text_end - a.says.text_begin != b.says.text_end - b.says.text_begin)
      return "the two processes are not alike";
    if (a.says.loaded == b.says.loaded) return "the system loads programs at fixed addresses";
    text_.resize(a.says.text_end - a.says.text_begin);
    if (!a.read(a.says.text_begin, text_.data(), text_.size())) return "its code cannot be read";
    return "";
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
    return ptrace(PTRACE_SETREGS, side.pid, nullptr, &side.regs) == 0;
  }

  // --- values ---------------------------------------------------------------------------------------

  Kind kind(Pair v, int bytes = 8) const {
    v = {cut(v.a, bytes), cut(v.b, bytes)};
    if (v.a == v.b) return Kind::kEqual;
    if (bytes == 8)
      for (int i = 0; i < kRegions; ++i) {
        const Region &r = sides_[0].says.regions[i], &q = sides_[1].says.regions[i];
        if (v.a - r.base == v.b - q.base && v.a >= r.begin && v.a < r.end) return Kind::kAddress;
      }
    return Kind::kOther;
  }
  Pair general(int number, bool high = false) const {
    int by = high ? 8 : 0;
    return {sides_[0].general(number) >> by, sides_[1].general(number) >> by};
  }
  Mark mark(int number) const {
    Pair now = general(number);
    const auto& [what, then] = marks_[(size_t)number];
    return then.a == now.a && then.b == now.b ? what : Mark::kNone;
  }
  void set_mark(int number, Mark what) { marks_[(size_t)number] = {what, general(number)}; }

  Pair place(const Instruction& it) const {
    Pair p;
    for (int i = 0; i < 2; ++i) {
      const Side& side = sides_[i];
      uint64_t at = (uint64_t)it.displacement;
      if (it.of_thread) at += side.regs.fs_base;
      if (it.relative) at += side.regs.rip + (uint64_t)it.length;
      if (it.base != kNone) at += side.general(it.base);
      if (it.index != kNone) at += side.general(it.index) * (uint64_t)it.scale;
      (i ? p.b : p.a) = at;
    }
    return p;
  }
  // Not mapped in one of them: the access will fail there.
  Pair memory(Pair at) const {
    Pair v;
    if (!sides_[0].read(at.a, &v.a, 8) || !sides_[1].read(at.b, &v.b, 8)) return {};
    return v;
  }
  bool same_memory(Pair at, size_t bytes) const {
    uint8_t one[16] = {}, other[16] = {};
    return !sides_[0].read(at.a, one, bytes) || !sides_[1].read(at.b, other, bytes) || memcmp(one, other, bytes) == 0;
  }
  void read_vectors() {
    for (Side& side : sides_) ptrace(PTRACE_GETFPREGS, side.pid, nullptr, &side.vectors);
  }
  bool same_vector(int number, size_t bytes) const {
    return memcmp((const char*)sides_[0].vectors.xmm_space + 16 * number, (const char*)sides_[1].vectors.xmm_space + 16 * number, bytes) == 0;
  }
  Pair vector_low(int number) const {
    Pair v;
    memcpy(&v.a, (const char*)sides_[0].vectors.xmm_space + 16 * number, 8);
    memcpy(&v.b, (const char*)sides_[1].vectors.xmm_space + 16 * number, 8);
    return v;
  }

  // --- one instruction --------------------------------------------------------------------------------

  struct Operand { Pair value; Kind kind; Mark mark; };

  Operand operand(int number, bool high, bool is_memory, Pair at, int bytes) const {
    Pair value = is_memory ? memory(at) : general(number, high);
    Mark m = is_memory ? Mark::kNone : mark(number);
    return {{cut(value.a, bytes), cut(value.b, bytes)}, kind(value, bytes), m};
  }

  const Instruction& instruction() {
    uint64_t offset = sides_[0].regs.rip - sides_[0].says.text_begin;
    auto [it, fresh] = decoded_.try_emplace(offset);
    if (fresh) it->second = decode(text_.data() + offset, text_.size() - offset);
    return it->second;
  }

  bool advance() {
    for (Side& side : sides_)
      if (ptrace(PTRACE_SINGLESTEP, side.pid, nullptr, nullptr) != 0) { died_ = "its process ended"; return false; }
    for (Side& side : sides_) {
      int by = 0;
      if (!side.stopped(&by)) { died_ = "its process ended"; return false; }
      if (by != SIGTRAP) { died_ = std::string("its process was stopped by ") + strsignal(by); return false; }
      side.read_registers();
    }
    return true;
  }

  void one() {
    last_ = sides_[0].regs.rip - sides_[0].says.loaded;
    const Instruction& it = instruction();
    Pair at{};
    if (it.memory) {
      for (int part : {it.base, it.index})
        if (part != kNone && kind(general(part)) == Kind::kOther) return found("reads a table, or computes, at a place that it made from an address");
      at = place(it);
    }
    const bool has_target = it.target != kNone || it.target_is_memory;
    Operand target{}, source{};
    if (it.does != Does::kVector && it.reads_target && has_target && !it.target_is_xmm)
      target = operand(it.target, it.target_high, it.target_is_memory, at, it.bytes);
    const bool has_source = (it.source != kNone || it.source_is_memory) && !it.source_is_xmm;
    if (it.does != Does::kVector && has_source) source = operand(it.source, it.source_high, it.source_is_memory, at, it.bytes);
    if (it.has_immediate && !has_source) source = {{cut((uint64_t)it.immediate, it.bytes), cut((uint64_t)it.immediate, it.bytes)}, Kind::kEqual, Mark::kNone};
    if (it.does != Does::kMove && (target.mark == Mark::kUnusable || source.mark == Mark::kUnusable))
      return found("decides by what a library function told of an address");
    if (flags_of_rest_ && it.reads_flags) return found("decides by a part of an address");
    if (reads_rest(it) || makes_rest(it, target, source)) return follow_rest(it, target, source);
    if (it.writes != kNone) rest_[(size_t)it.writes] = false;
    if (it.sets_flags) flags_of_rest_ = false;
    switch (it.does) {
      case Does::kUnknown: {
        uint64_t offset = sides_[0].regs.rip - sides_[0].says.text_begin;
        return found("executes an instruction that cannot be followed (" + hex(text_.data() + offset, std::min<size_t>(8, text_.size() - offset)) + ")");
      }
      case Does::kMove: return move(it, source);
      case Does::kAdd: return add(it, target, source, at);
      case Does::kAnd: if (!aligns(it, target, source)) return found("takes a part of an address"); break;
      case Does::kTest: if (!tests(it, target, source)) return found("decides by bits of an address"); break;
      case Does::kCompare: if (!compares(it, target, source)) return found("compares an address with a number"); break;
      case Does::kCompute: {
        bool equal = target.kind == Kind::kEqual && source.kind == Kind::kEqual;
        for (int r = 0; r < 16; ++r) equal = equal && (!(it.also >> r & 1) || kind(general(r), it.bytes) == Kind::kEqual);
        if (!equal) return found("computes with an address as with a number");
        break;
      }
      case Does::kVector: {
        read_vectors();
        bool equal = !(it.target != kNone && it.reads_target) || same_vector(it.target, (size_t)it.bytes);
        if (it.source != kNone) equal = equal && same_vector(it.source, (size_t)it.bytes);
        if (it.source_is_memory) equal = equal && same_memory(at, (size_t)it.bytes);
        if (!equal) return found("computes with an address as with a number");
        break;
      }
    }
    advance();
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
  static bool low_byte_alike(const Operand& one) { return (uint8_t)one.value.a == (uint8_t)one.value.b; }
  // Whether the lowest bytes of two registers are combined, and the others with them, which are a part of an address.
  bool makes_rest(const Instruction& it, const Operand& target, const Operand& source) const {
    if (!it.bitwise || it.same || !among_registers(it)) return false;
    if (target.kind != Kind::kOther && source.kind != Kind::kOther) return false;
    if (it.does == Does::kAnd && aligns(it, target, source)) return false;
    for (const Operand& one : {target, source})
      if (one.kind == Kind::kAddress || !low_byte_alike(one)) return false;
    return true;
  }
  void follow_rest(const Instruction& it, const Operand& target, const Operand& source) {
    bool moves = it.does == Does::kMove && it.source != kNone && it.also == 0;
    bool combines = it.bitwise && target.kind != Kind::kAddress && source.kind != Kind::kAddress && low_byte_alike(target) && low_byte_alike(source);
    if (!among_registers(it) || !(moves || combines)) return found("takes a part of an address");
    if (!advance()) return;
    rest_[(size_t)it.target] = true;
    set_mark(it.target, Mark::kNone);
    if (combines) flags_of_rest_ = true;
  }

  void move(const Instruction& it, Operand source) {
    if (it.source_is_xmm && it.narrows) {
      read_vectors();
      Pair low = vector_low(it.source);
      source = {low, kind(low, it.bytes), Mark::kNone};
    }
    Mark after = source.mark;
    if (it.narrows && source.kind == Kind::kOther) {
      bool half = it.bytes == 4 && !it.source_is_memory && !it.source_is_xmm && !it.target_is_memory && it.target != kNone &&
                  kind(general(it.source)) == Kind::kAddress;
      if (!half) return found("takes a part of an address");
      after = Mark::kHalf;
    }
    if (advance() && it.target != kNone && !it.target_is_xmm) set_mark(it.target, after);
  }

  void add(const Instruction& it, const Operand& target, const Operand& source, Pair at) {
    bool distant = target.mark == Mark::kDistance && source.kind == Kind::kEqual && near(source);
    bool apart = target.kind == Kind::kAddress && source.kind == Kind::kAddress;
    for (const Operand& one : {target, source})
      if (one.kind == Kind::kOther && !distant) return found("computes with an address as with a number");
    if (!advance()) return;
    Pair result = it.load_effective ? at : it.target_is_memory ? memory(at) : general(it.target);
    Kind made = kind(result, it.bytes);
    if (made == Kind::kOther && !(it.target != kNone && (distant || apart))) return found("makes a number of an address");
    if (it.target != kNone) set_mark(it.target, made == Kind::kOther ? Mark::kDistance : Mark::kNone);
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
  bool compares(const Instruction& it, const Operand& one, const Operand& other) const {
    if (one.kind == Kind::kEqual && other.kind == Kind::kEqual) return true;
    if (it.bytes < 8) return false;
    if (one.kind == Kind::kAddress && other.kind == Kind::kAddress) return true;
    auto with_number = [](const Operand& x, const Operand& n) {
      // Null, as compilers ask for it (less than 1), or an end (-1): no address is near zero.
      return n.kind == Kind::kEqual && near(n) && (x.kind == Kind::kAddress || x.mark == Mark::kDistance);
    };
    return with_number(one, other) || with_number(other, one);
  }

  // --- library functions ------------------------------------------------------------------------------

  // Runs a library function in both, up to where it returns to. False where that cannot be.
  bool outside() {
    Side &a = sides_[0], &b = sides_[1];
    size_t which = 0;
    while (which < a.imports.size() && a.imports[which].address != a.regs.rip) ++which;
    if (which == a.imports.size() || b.imports[which].address != b.regs.rip) {
      found("calls what it does not import");
      return false;
    }
    bool unusable = false;
    for (int number : kArguments)
      if (rest_[(size_t)number]) { found("takes a part of an address"); return false; }
    if (!may_call(a.imports[which], unusable)) return false;
    Pair back{};
    if (!a.read(a.regs.rsp, &back.a, 8) || !b.read(b.regs.rsp, &back.b, 8)) return false;
    uint64_t to[2] = {back.a, back.b};
    bool returns = back.a >= a.says.text_begin && back.a < a.says.text_end;
    uint8_t before[2] = {};
    for (int i = 0; i < 2; ++i) {
      if (returns && !sides_[i].set_byte(to[i], 0xcc, &before[i])) return false;
      if (ptrace(PTRACE_CONT, sides_[i].pid, nullptr, nullptr) != 0) return false;
    }
    for (int i = 0; i < 2; ++i) {
      int by = 0;
      if (!sides_[i].stopped(&by)) return false;
      if (!returns) continue;
      if (by != SIGTRAP || !arrive(sides_[i], to[i], before[i])) { died_ = "a library function did not return"; return false; }
    }
    left_ = !returns;   // the last call of the function: what follows is the process that makes the calls
    rest_[0] = false;   // the result
    if (unusable) set_mark(0, Mark::kUnusable);
    return true;
  }

  bool may_call(const Import& import, bool& unusable) {
    auto argument = [&](int number) { return general(kArguments[number]); };
    auto refuse = [&](const char* what) { found(what); return false; };
    switch (import.checks) {
      case Checks::kNothing: return true;
      case Checks::kNotFollowed: return refuse("calls a library function that calls back or unwinds the stack, which cannot be followed");
      case Checks::kSizes:
        for (int i = 0; i < 6; ++i)
          if ((import.which >> i & 1) && kind(argument(i)) != Kind::kEqual) return refuse("computes with an address as with a number");
        return true;
      case Checks::kNumber:
        read_vectors();
        return same_vector(0, 8) || same_vector(0, 4) || refuse("computes with an address as with a number");
      case Checks::kCopy: {
        Pair bytes = argument(2), from = argument(1);
        if (kind(bytes) != Kind::kEqual) return refuse("copies as much as an address says");
        return (bytes.a % 8 == 0 && from.a % 8 == 0) || holds_no_address(from, bytes.a) || refuse("takes a part of an address");
      }
      case Checks::kMemory: {
        Pair bytes = argument(2);
        bool equal = kind(bytes) == Kind::kEqual;
        for (int i = 0; i < 2 && equal; ++i) {
          Kind k = kind(argument(i));
          equal = k == Kind::kEqual || (k == Kind::kAddress && same_bytes(argument(i), bytes.a));
        }
        return equal || refuse("has a library function read bytes of an address");
      }
      case Checks::kBytes:
      case Checks::kPrints:
      case Checks::kObject:
        unusable = import.checks == Checks::kPrints;
        for (int i = 0; i < 6; ++i) {
          Pair value = argument(i);
          Kind k = kind(value);
          unusable = unusable || k == Kind::kOther;
          if (k != Kind::kAddress || i > 3 || (import.which >> i & 1)) continue;
          if (!alike(value, i == 0 && import.checks == Checks::kObject)) return refuse("has a library function read bytes of an address");
        }
        return true;
    }
    return false;
  }

  // Whether what lies at both places is equal, up to the first zero byte: text. With `object`, whole words may be addresses.
  bool alike(Pair at, bool object = false) const {
    for (size_t i = 0; i < kBytesLookedAt; i += 8) {
      Pair word;
      if (!sides_[0].read(at.a + i, &word.a, 8) || !sides_[1].read(at.b + i, &word.b, 8)) return true;
      for (int byte = 0; byte < 8; ++byte) {
        uint8_t x = (uint8_t)(word.a >> 8 * byte), y = (uint8_t)(word.b >> 8 * byte);
        if (x != y) { if (object && kind(word) == Kind::kAddress) break; return false; }
        if (x == 0 && !object) return true;
      }
      if (object && i >= 24) return true;   // a string, a list, a table: what follows is not its own
    }
    return true;
  }
  bool same_bytes(Pair at, uint64_t bytes) const {
    for (uint64_t i = 0; i < bytes; i += 8)
      if (!same_memory({at.a + i, at.b + i}, (size_t)std::min<uint64_t>(8, bytes - i))) return false;
    return true;
  }
  bool holds_no_address(Pair at, uint64_t bytes) const {
    for (uint64_t i = 0; i < bytes + 7; ++i) {
      if (kind(memory({at.a + i - 7, at.b + i - 7})) == Kind::kAddress) return false;
      if (i > kBytesLookedAt) break;
    }
    return true;
  }

  Side sides_[2];
  double deadline_s_;
  uint64_t steps_ = 0, last_ = 0;   // last_: where the latest instruction of the candidate lies in its object
  bool left_ = false;
  std::string finding_, died_;
  std::vector<uint8_t> text_;
  std::unordered_map<uint64_t, Instruction> decoded_;
  std::array<std::pair<Mark, Pair>, 16> marks_{};
  std::array<bool, 16> rest_{};   // registers of which nothing but the lowest byte is a number
  bool flags_of_rest_ = false;                  // flags were set by the rest of such registers
};

}  // namespace

std::string step(const int (&processes)[2], double deadline_s) { return Stepper(processes, deadline_s).run(); }
void be_stepped() {
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(kNotTraced);
}

}  // namespace stepping

#else

namespace stepping {
std::string step(const int (&)[2], double) { return "missing host code is followed on x86-64 only"; }
void be_stepped() {}
}  // namespace stepping

#endif
