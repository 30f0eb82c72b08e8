// What PTX instructions cost on the hardware's pipes. The expansions are what ptxas usually makes of them
// (seen in its SASS for sm_80 and sm_90); latencies are those of Hopper within a cycle or two.
#include <cstdio>

#include "timing.h"

namespace ptx {

namespace {

constexpr int kShortBranch = 14;
constexpr float kSpecialLatency = 22, kShuffleLatency = 24, kDoubleLatency = 16, kConvertLatency = 8, kTensorLatency = 33;

bool wide(const Parsed& p) {
  const std::string& t = p.type();
  return t == "s64" || t == "u64" || t == "b64";
}

PipeUse uses(float issue, float PipeUse::*pipe, float count, float latency = 5) {
  PipeUse u;
  u.issue = issue;
  u.*pipe = count;
  u.latency = latency;
  return u;
}

PipeUse nothing() { return uses(0, &PipeUse::alu, 0, 0); }

PipeUse integer(const Parsed& p) {
  const std::string& op = p.op();
  bool is64 = wide(p);
  if (op == "mul" || op == "mad") {
    if (p.has("wide")) return uses(1, &PipeUse::multiply, 1);
    return is64 ? uses(3, &PipeUse::multiply, 3, 12) : uses(1, &PipeUse::multiply, 1);
  }
  if (op == "div" || op == "rem") {
    PipeUse u = is64 ? uses(70, &PipeUse::multiply, 24, 250) : uses(18, &PipeUse::multiply, 7, 70);
    u.alu = is64 ? 40 : 8;
    u.special = is64 ? 2 : 1;
    u.convert = 2;
    return u;
  }
  if (op == "popc" || op == "clz" || op == "brev" || op == "bfind") return uses(1, &PipeUse::convert, 1, 12);
  if (op == "bfe" || op == "bfi") return uses(2, &PipeUse::alu, 2, 8);
  if (op == "dp4a" || op == "dp2a") return uses(1, &PipeUse::multiply, 1);
  float count = is64 ? 2 : 1;
  return uses(count, &PipeUse::alu, count, 4 + count);
}

PipeUse single(const Parsed& p) {
  const std::string& op = p.op();
  if (op == "fma" || op == "add" || op == "sub" || op == "mul" || op == "mad") return uses(1, &PipeUse::fma, 1);
  if (op == "div" || op == "sqrt" || op == "rcp" || op == "rsqrt" || op == "ex2" || op == "lg2" || op == "sin" ||
      op == "cos" || op == "tanh") {
    bool approximate = p.has("approx") || p.has("full");
    // Without .ftz, arguments that are denormal are scaled before and results after.
    float extra = p.has("ftz") || op == "sin" || op == "cos" || op == "tanh" ? 0 : 2;
    if (op == "div") extra += approximate ? 3 : 8;
    else if (!approximate) extra += 6;
    PipeUse u = uses(1 + extra, &PipeUse::fma, extra, kSpecialLatency + 4 * extra);
    u.special = 1;
    return u;
  }
  return uses(1, &PipeUse::alu, 1);   // min, max, abs, neg, comparisons, copysign
}

PipeUse twice(const Parsed& p) {
  const std::string& op = p.op();
  bool heavy = op == "div" || op == "sqrt" || op == "rcp" || op == "rsqrt";
  return heavy ? uses(14, &PipeUse::fp64, 10, 160) : uses(1, &PipeUse::fp64, 1, kDoubleLatency);
}

PipeUse conversion(const Parsed& p) {
  const std::string& to = p.parts.size() > 2 ? p.parts[p.parts.size() - 2] : p.type();
  const std::string& from = p.type();
  auto whole = [](const std::string& t) { return t[0] == 's' || t[0] == 'u' || t[0] == 'b'; };
  if (whole(to) && whole(from)) {
    bool widens = to == "u64" && from == "u32";
    return widens ? nothing() : uses(1, &PipeUse::alu, 1);
  }
  bool slow = to == "f64" || from == "f64" || to == "s64" || to == "u64" || from == "s64" || from == "u64";
  if (whole(to) || whole(from) || slow) return uses(1, &PipeUse::special, 1, kSpecialLatency);
  return uses(1, &PipeUse::convert, 1, kConvertLatency);
}

PipeUse matrix(const Parsed& p) {
  // mma.sync.aligned.m16n8k16...: the shape is one of the parts; wmma.mma likewise.
  int m = 0, n = 0, k = 0;
  for (const auto& part : p.parts)
    if (sscanf(part.c_str(), "m%dn%dk%d", &m, &n, &k) == 3) break;
  float scale = 1;
  if (p.has("tf32")) scale = 2;
  if (p.has("s8") || p.has("u8") || p.has("e4m3") || p.has("e5m2")) scale = 0.5f;
  if (p.has("s4") || p.has("u4")) scale = 0.25f;
  if (p.op() == "wmma" && !p.has("mma")) return uses(4, &PipeUse::memory, 4, 30);
  if (p.has("f64")) return uses(1, &PipeUse::fp64, (float)(m * n * k) / 32, kTensorLatency);
  return uses(1, &PipeUse::tensor, scale * (float)(m * n * k), kTensorLatency);
}

PipeUse use_of(const Inst& inst) {
  const Parsed& p = *inst.parsed;
  const std::string& op = p.op();
  if (op == "mov" || op == "cvta" || op == "isspacep" || (op == "ld" && p.has("param"))) return nothing();
  if (op == "setp" || op == "selp" || op == "slct" || op == "set") {
    float count = wide(p) || p.type() == "f64" ? 2 : 1;
    return uses(count, &PipeUse::alu, count);
  }
  switch (inst.klass) {
    case Class::Float32: return single(p);
    case Class::Float64: return twice(p);
    case Class::Float16: return uses(1, &PipeUse::half, 1);
    case Class::Special: return p.type() == "f64" ? twice(p) : single(p);
    case Class::Convert: return conversion(p);
    case Class::Move: return nothing();
    case Class::Control: return uses(1, &PipeUse::alu, 1, 0);
    case Class::Load: case Class::Store: case Class::Atomic: case Class::Shared: case Class::Async:
      return uses(1, &PipeUse::memory, 1, 0);
    case Class::Barrier: return uses(1, &PipeUse::alu, 1, 0);
    case Class::Warp: return uses(1, &PipeUse::shuffle, 1, kShuffleLatency);
    case Class::Tensor: return matrix(p);
    default: return integer(p);
  }
}

void slots_of(const Operand& o, std::vector<int>& into) {
  if (o.kind == Operand::Register || (o.kind == Operand::Address && o.slot >= 0)) into.push_back(o.slot);
  for (const auto& part : o.parts) slots_of(part, into);
}

// Whether the first operand is read, not written.
bool only_reads(const Parsed& p) {
  const std::string& op = p.op();
  return op == "st" || op == "red" || op == "bar" || op == "barrier" || op == "bra" || op == "cp" || op == "stmatrix" ||
         op == "call" || op == "membar" || op == "fence" || op == "prefetch" || op == "exit" || op == "ret" ||
         op == "trap" || op == "nanosleep" || (op == "wmma" && p.has("store"));
}

uint8_t spaces_of(const Parsed& p) {
  if (p.has("nc") || p.has("const") || p.has("param")) return 0;
  if (p.op() == "ldmatrix" || p.op() == "stmatrix" || p.has("shared") || p.has("shared::cluster")) return 2;
  if (p.has("global")) return 1;
  return p.has("local") ? 4 : 7;
}

// Branches over a few instructions become predicates.
bool is_short(const Inst& inst, int pc) {
  int64_t skipped = inst.imm[0] - pc;
  return skipped > 0 && skipped <= kShortBranch;
}

}  // namespace

std::vector<Step> steps_of(const Function& function) {
  std::vector<Step> steps(function.code.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    const Inst& inst = function.code[i];
    const Parsed& p = *inst.parsed;
    Step& step = steps[i];
    step.use = use_of(inst);
    for (size_t k = 0; k < p.operands.size(); ++k) {
      bool second = k == 1 && (p.op() == "setp" || p.op() == "shfl" || p.op() == "match") && p.operands[1].predicate;
      slots_of(p.operands[k], !only_reads(p) && (k == 0 || second) ? step.writes : step.reads);
    }
    if (inst.guard >= 0) step.reads.push_back(inst.guard);
    step.spaces = spaces_of(p);
    if (inst.control == Control::Branch && is_short(inst, (int)i)) step.kind = Step::Plain;
    else if (inst.control != Control::None) step.kind = Step::End;
    else if (p.op() == "st" || p.op() == "red" || p.op() == "stmatrix") step.kind = Step::Store;
    else if ((p.op() == "ld" && !p.has("param")) || p.op() == "ldu" || p.op() == "atom" || p.op() == "ldmatrix")
      step.kind = Step::Load;
    else if (p.op() == "cp" && p.has("commit_group")) step.kind = Step::CloseGroup;
    else if (p.op() == "cp" && (p.has("wait_group") || p.has("wait_all"))) {
      step.kind = Step::WaitGroup;
      if (p.has("wait_group") && !p.operands.empty()) step.open_groups = (int)p.operands[0].bits;
    } else if (p.op() == "cp") step.kind = Step::Copy;
    for (const char* part : {"cg", "cv", "volatile", "relaxed", "acquire", "mmio"}) step.cached &= !p.has(part);
    step.cached &= p.op() != "atom";
  }
  return steps;
}

}  // namespace ptx
