// Floating-point arithmetic, comparison and approximate functions for f16, bf16, f32 and f64.
//
// f32 and f64 round to nearest with the host's own instructions and in other modes with the host's
// rounding mode set around the loop. Halves are computed in double and rounded once. Everything that only
// compares or moves bits (min, abs, setp, ...) works on bit patterns, so that NaN and signed zero need no
// special care from the host.
//
// Approximate functions are within the documented error and no more exact than hardware (approximate.h), but not
// the bits of any GPU.
#include "floating_patterns.h"
#include "inexact.h"

namespace ptx {
namespace {

// ---------------------------------------------------------------- binding

// An opcode's modifiers between its name and its type; `known` is false if one is none of these.
struct Modifiers {
  uint8_t flags = 0;
  Rounding rounding = Rounding::Nearest;
  bool approx = false, full = false, rounds = false, known = true;

  Modifiers(const Parsed& p, size_t first, size_t types) {
    bool xorsign = false, magnitude = false;
    for (size_t i = first; i + types < p.parts.size(); ++i) {
      const std::string& m = p.parts[i];
      if (m == "rn" || m == "rz" || m == "rm" || m == "rp") {
        rounds = true;
        rounding = m == "rn" ? Rounding::Nearest : m == "rz" ? Rounding::Zero : m == "rm" ? Rounding::Down : Rounding::Up;
      }
      else if (m == "ftz") flags |= Ftz;
      else if (m == "sat") flags |= Sat;
      else if (m == "relu") flags |= Relu;
      else if (m == "NaN") flags |= NanWins;
      else if (m == "xorsign") flags |= XorSign, xorsign = true;
      else if (m == "abs") magnitude = true;
      else if (m == "approx") approx = true;
      else if (m == "full") full = true;
      else known = false;
    }
    known = known && xorsign == magnitude;
  }
  bool only(uint8_t allowed) const { return !(flags & ~allowed); }
};

bool is_half(const std::string& type) { return type == "f16" || type == "f16x2" || type == "bf16" || type == "bf16x2"; }
bool is_float(const std::string& type) { return is_half(type) || type == "f32" || type == "f64"; }

Class class_of(const std::string& type) {
  return type == "f64" ? Class::Float64 : type == "f32" ? Class::Float32 : Class::Float16;
}

// Destination and sources of an instruction whose operands all have the opcode's type.
bool place(const Parsed& p, Inst& inst, size_t sources) {
  if (p.operands.size() != sources + 1 || target(p.operands[0]) < 0) return false;
  inst.dst[0] = target(p.operands[0]);
  for (size_t k = 0; k < 3; ++k) {
    const Operand& o = p.operands[k < sources ? k + 1 : 1];   // unused sources read the first: always valid
    if (o.slot < 0 || o.kind == Operand::Vector || o.kind == Operand::Address) return false;
    inst.src[k] = p.type() == "f64" ? source64(o) : source32(o);
  }
  return true;
}

template <typename Wide, typename Half>
Handler arithmetic(const std::string& type, const Modifiers& m) {
  if (type == "f32") return m.only(Ftz | Sat) ? arithmetic32<Wide>(m.flags, m.rounding) : nullptr;
  if (type == "f64") return m.only(0) ? rounded<run64<Wide>>(m.rounding) : nullptr;
  return m.rounding == Rounding::Nearest ? arithmetic16<Half>(type) : nullptr;
}

Handler arithmetic_handler(const std::string& op, const std::string& type, const Modifiers& m) {
  if (m.approx || m.full || !m.only(op == "fma" ? Ftz | Sat | Relu : Ftz | Sat)) return nullptr;
  if (type.compare(0, 2, "bf") == 0 && !m.only(Relu)) return nullptr;
  if ((m.flags & Relu) && (m.flags & Sat)) return nullptr;
  if (op == "add") return arithmetic<Add, AddOdd>(type, m);
  if (op == "sub") return arithmetic<Sub, SubOdd>(type, m);
  if (op == "mul") return arithmetic<Mul, MulOdd>(type, m);
  if (op == "mad" && is_half(type)) return nullptr;
  return arithmetic<Fma, FmaOdd>(type, m);
}

template <typename Op>
Handler flushing(const Modifiers& m) { return arithmetic32<Op>(m.flags, Rounding::Nearest); }

// div, rcp and sqrt, correctly rounded.
template <typename Op>
Handler rounded_handler(const std::string& type, const Modifiers& m) {
  if (!m.rounds || m.approx || m.full) return nullptr;
  if (type == "f32") return arithmetic32<Op>(m.flags, m.rounding);
  return type == "f64" && !m.flags ? rounded<run64<Op>>(m.rounding) : nullptr;
}

Handler approximate_handler(const std::string& op, const std::string& type, const Modifiers& m) {
  if (m.rounds || !m.only(Ftz) || (m.full && op != "div")) return nullptr;
  if (type == "f32") {
    if (op == "div") return m.full ? flushing<Div>(m) : flushing<DivApprox>(m);
    if (op == "rcp") return flushing<Rcp>(m);
    if (op == "sqrt") return flushing<Sqrt>(m);
    if (op == "rsqrt") return flushing<ByDouble<Rsqrt>>(m);
    if (op == "sin") return flushing<ByDouble<Sin>>(m);
    if (op == "cos") return flushing<ByDouble<Cos>>(m);
    if (op == "ex2") return flushing<ByDouble<Ex2>>(m);
    if (op == "lg2") return flushing<ByDouble<Lg2>>(m);
    return m.flags ? nullptr : flushing<ByDouble<TanhCoarse>>(m);
  }
  if (type == "f64") {
    if (op == "rcp" && m.flags == Ftz) return run64<UpperWord<Rcp>>;
    if (op == "rsqrt") return m.flags == Ftz ? run64<UpperWord<Rsqrt>> : run64<Rsqrt>;
    return nullptr;
  }
  // Halves are off by up to a unit in the last place.
  const bool brain = type.compare(0, 2, "bf") == 0;
  if (op == "ex2" && (m.flags == Ftz) == brain) return arithmetic16<Ex2, Rounding::Zero>(type);
  return op == "tanh" && !m.flags ? arithmetic16<Tanh, Rounding::Zero>(type) : nullptr;
}

// PTX ISA, the table of each instruction. A sine's error is absolute.
const Inaccuracy& inaccuracy_of(const std::string& op) {
  static const std::map<std::string, Inaccuracy> known = {
      {"div", {2}}, {"rcp", {1}}, {"sqrt", {1}}, {"rsqrt", {2}}, {"ex2", {2}}, {"lg2", {1, 0x1p-23}}, {"sin", {1, 0x1p-22}},
      {"cos", {1, 0x1p-22}}, {"tanh", {1, 0, kTanhError, arithmetic32<ByDouble<Tanh>>(0, Rounding::Nearest)}}};
  return known.at(op);
}

Handler pattern_handler(const std::string& op, const std::string& type, const Modifiers& m) {
  if (m.rounds || m.approx || m.full) return nullptr;
  if (op == "copysign") return m.flags || is_half(type) ? nullptr : patterns<CopySign>(type);
  if (op == "neg" || op == "abs") {
    if (!m.only(type == "f64" || type.compare(0, 2, "bf") == 0 ? 0 : Ftz)) return nullptr;
    return op == "neg" ? patterns<Neg>(type) : patterns<Abs>(type);
  }
  if (!m.only(type == "f64" ? 0 : Ftz | NanWins | XorSign)) return nullptr;
  return op == "min" ? patterns<Min>(type) : patterns<Max>(type);
}

template <template <typename, int> class Run>
Handler by_type(const std::string& type) {
  if (type == "f16") return Run<F16, 1>::run;
  if (type == "f16x2") return Run<F16, 2>::run;
  if (type == "bf16") return Run<BF16, 1>::run;
  if (type == "bf16x2") return Run<BF16, 2>::run;
  if (type == "f32") return Run<F32, 1>::run;
  return Run<F64, 1>::run;
}
template <typename F, int Parts> struct SetP { static constexpr Handler run = run_setp<F, Parts>; };
template <typename F, int Parts> struct Set { static constexpr Handler run = run_set<F, Parts>; };

// What `set` writes for true, or 0 where the pair of types does not exist.
uint32_t truth(const std::string& to, const std::string& from) {
  if (from == "f16x2" || from == "bf16x2") {
    if (to == "u32" || to == "s32") return 0xffff;
    return to != from ? 0 : from == "f16x2" ? F16::kOne : BF16::kOne;
  }
  if (to == "u32" || to == "s32") return 0xffffffffu;
  if ((to == "u16" || to == "s16") && is_half(from)) return 0xffff;
  return to == "f32" && !is_half(from) ? F32::kOne : to == "f16" ? F16::kOne : to == "bf16" ? BF16::kOne : 0;
}

// setp.CMP{.BOOL}{.ftz}.type p{|q}, a, b{, c} and set.CMP{.BOOL}{.ftz}.type.type d, a, b{, c}.
bool bind_comparison(const Parsed& p, Inst& inst) {
  const bool predicate = p.op() == "setp";
  const size_t types = predicate ? 1 : 2, n = p.parts.size();
  const std::string& type = p.type();
  if (n < 2 + types || !kComparisons.count(p.parts[1])) return false;
  const std::string& next = p.parts[2];
  const bool combined = n > 2 + types && (next == "and" || next == "or" || next == "xor");
  const Modifiers m(p, combined ? 3 : 2, types);
  if (!m.known || m.rounds || m.approx || m.full || !m.only(type == "f64" ? 0 : Ftz)) return false;

  const size_t sources = combined ? 3 : 2, destinations = p.operands.size() - sources;
  if (p.operands.size() < sources + 1 || destinations > (predicate ? 2u : 1u)) return false;
  for (size_t k = 0; k < destinations; ++k) inst.dst[k] = target(p.operands[k]);
  for (size_t k = 0; k < 2; ++k) {
    const Operand& o = p.operands[destinations + k];
    inst.src[k] = type == "f64" ? source64(o) : source32(o);
    if (inst.src[k] < 0) return false;
  }
  if (combined) {
    const Operand& c = p.operands.back();
    if (!c.predicate || c.slot < 0) return false;
    inst.src[2] = c.slot;
    inst.flag[2] = uint8_t(next[0]);
    inst.flag[3] = c.negated;
  }
  inst.flag[0] = m.flags;
  inst.flag[1] = kComparisons.at(p.parts[1]);
  inst.klass = class_of(type);
  inst.run = predicate ? by_type<SetP>(type) : by_type<Set>(type);
  if (predicate) return true;
  inst.imm[0] = truth(p.parts[n - 2], type);
  return inst.imm[0] != 0 && inst.dst[0] >= 0;
}

bool bind_testp(const Parsed& p, Inst& inst) {
  static const std::map<std::string, uint8_t> kinds = {{"finite", Finite}, {"infinite", Infinite}, {"number", Number},
      {"notanumber", NotANumber}, {"normal", Normal}, {"subnormal", Subnormal}};
  if (p.parts.size() != 3 || !kinds.count(p.parts[1]) || is_half(p.type()) || p.operands.size() != 2) return false;
  const bool wide = p.type() == "f64";
  inst.dst[0] = target(p.operands[0]);
  inst.src[0] = wide ? source64(p.operands[1]) : source32(p.operands[1]);
  inst.flag[1] = kinds.at(p.parts[1]);
  inst.klass = class_of(p.type());
  inst.run = wide ? run_testp<F64> : run_testp<F32>;
  return inst.src[0] >= 0;
}

bool among(const std::string& op, std::initializer_list<const char*> ops) {
  for (const char* o : ops)
    if (op == o) return true;
  return false;
}

}  // namespace

bool bind_float(const Parsed& p, Inst& inst) {
  const std::string &op = p.op(), &type = p.type();
  if (p.parts.size() < 2 || !is_float(type)) return false;
  if (op == "setp" || op == "set") return bind_comparison(p, inst);
  if (op == "testp") return bind_testp(p, inst);

  // Mixed types, as in add.f32.f16, leave a type among the modifiers: refused there.
  const Modifiers m(p, 1, 1);
  if (!m.known) return false;
  inst.flag[0] = m.flags;
  inst.flag[1] = uint8_t(m.rounding);
  inst.klass = class_of(type);
  size_t sources = 2;
  if (among(op, {"add", "sub", "mul", "fma", "mad"})) {
    sources = op == "fma" || op == "mad" ? 3 : 2;
    inst.run = arithmetic_handler(op, type, m);
  } else if (among(op, {"min", "max", "neg", "abs", "copysign"})) {
    sources = op == "neg" || op == "abs" ? 1 : 2;
    inst.run = pattern_handler(op, type, m);
  } else if (among(op, {"div", "rcp", "sqrt", "rsqrt", "sin", "cos", "ex2", "lg2", "tanh"})) {
    sources = op == "div" ? 2 : 1;
    if (m.approx || m.full) inst.klass = Class::Special;
    if (m.approx || m.full) inst.run = approximate_handler(op, type, m);
    else if (!m.only(type == "f32" ? Ftz : 0)) return false;
    else if (op == "div") inst.run = rounded_handler<Div>(type, m);
    else if (op == "rcp") inst.run = rounded_handler<Rcp>(type, m);
    else if (op == "sqrt") inst.run = rounded_handler<Sqrt>(type, m);
  }
  if (!inst.run || !place(p, inst, sources)) return false;
  if (inst.klass == Class::Special && type == "f32") make_inexact(inst, inaccuracy_of(op));
  return true;
}

}  // namespace ptx
