// cvt: conversions among integers of 8 to 64 bits and f16, bf16, f32, f64, and into packed formats.
//
// Values wider than a register's type are possible: a source is read from the low bits, a destination is
// extended to its register as its type says. Every conversion out of a float goes through double, which
// holds each format exactly; what cannot be exact on the way in (64-bit integers) is rounded to odd, so
// that the last step rounds once.
#include "convert_values.h"

namespace ptx {
namespace {

// ---------------------------------------------------------------- packed formats

// d = {high: a, low: b} of two f32.
template <typename F, Rounding R>
void run_pack(Warp& w, const Inst& inst) {
  const float *a = w.reg(inst.src[0]).f32, *b = w.reg(inst.src[1]).f32;
  emit_packed<F, R>(w, inst, [=](int i) { return a[i]; }, [=](int i) { return b[i]; });
}

// Both halves of a packed pair from one format to another.
template <typename From, typename To>
void run_repack(Warp& w, const Inst& inst) {
  const uint32_t* a = w.reg(inst.src[0]).u32;
  emit_packed<To, Rounding::Nearest>(w, inst, [=](int i) { return decode<From>(a[i] >> From::kWidth); },
                                     [=](int i) { return decode<From>(a[i]); });
}

template <Rounding R>
void run_tf32(Warp& w, const Inst& inst) {
  alignas(64) double x[kLanes];
  alignas(64) uint32_t codes[kLanes];
  for (int i = 0; i < kLanes; ++i) x[i] = w.reg(inst.src[0]).f32[i];
  narrow<TF32, R>(x, codes, inst.flag[3]);
  emit(w, w.reg(inst.dst[0]).u32, [&](int i) { return is_nan<TF32>(codes[i]) ? F32::kNan : codes[i] << 13; });
}

// cvt.pack.sat: two s32 clamped and packed; 8-bit results shift the low half of c up.
void run_pack_integers(Warp& w, const Inst& inst) {
  const Reg &a = w.reg(inst.src[0]), &b = w.reg(inst.src[1]), &c = w.reg(inst.src[2]);
  const Plan plan(inst);
  const int width = width_of(plan.to);
  const int32_t low = int32_t(smallest(plan.to)), high = int32_t(largest(plan.to));
  const uint32_t field = (1u << width) - 1;
  emit(w, w.reg(inst.dst[0]).u32, [=, &a, &b, &c](int i) {
    const auto clamp = [=](int32_t x) { return uint32_t(x < low ? low : x > high ? high : x) & field; };
    return (width == 8 ? c.u32[i] << 16 : 0) | clamp(a.s32[i]) << width | clamp(b.s32[i]);
  });
}

// ---------------------------------------------------------------- binding

struct Modifiers {
  uint8_t flags = 0;
  Rounding rounding = Rounding::Nearest;
  bool rounds = false, known = true;

  explicit Modifiers(const Parsed& p) {
    static const std::map<std::string, Rounding> roundings = {
        {"rn", Rounding::Nearest}, {"rz", Rounding::Zero}, {"rm", Rounding::Down}, {"rp", Rounding::Up}, {"rna", Rounding::Away}};
    static const std::map<std::string, uint8_t> others = {{"sat", Sat}, {"ftz", Ftz}, {"relu", Relu}, {"satfinite", Finite}};
    for (size_t i = 1; i + 2 < p.parts.size(); ++i) {
      std::string m = p.parts[i];
      if (others.count(m)) {
        flags |= others.at(m);
        continue;
      }
      if (m == "rni" || m == "rzi" || m == "rmi" || m == "rpi") flags |= Integral, m.pop_back();
      if (roundings.count(m) && !rounds) rounds = true, rounding = roundings.at(m);
      else known = false;
    }
  }
  bool only(uint8_t allowed) const { return !(flags & ~allowed); }
};

Handler packed_handler(const std::string& to, const std::string& from, const Modifiers& m) {
  const bool zero = m.rounding == Rounding::Zero;
  if (!m.rounds || !m.only(Relu | Finite)) return nullptr;
  if (to == "tf32" && from == "f32") {
    if (m.rounding == Rounding::Away) return m.only(Finite) ? run_tf32<Rounding::Away> : nullptr;
    return zero ? run_tf32<Rounding::Zero> : m.rounding == Rounding::Nearest ? run_tf32<Rounding::Nearest> : nullptr;
  }
  if (m.rounding != Rounding::Nearest && !zero) return nullptr;
  if (from == "f32") {
    if (to == "f16x2") return zero ? run_pack<F16, Rounding::Zero> : run_pack<F16, Rounding::Nearest>;
    if (to == "bf16x2") return zero ? run_pack<BF16, Rounding::Zero> : run_pack<BF16, Rounding::Nearest>;
  }
  if (zero) return nullptr;
  const bool finite = m.flags & Finite;
  if (from == "f32" && finite && to == "e4m3x2") return run_pack<E4M3, Rounding::Nearest>;
  if (from == "f32" && finite && to == "e5m2x2") return run_pack<E5M2, Rounding::Nearest>;
  if (from == "f16x2" && finite && to == "e4m3x2") return run_repack<F16, E4M3>;
  if (from == "f16x2" && finite && to == "e5m2x2") return run_repack<F16, E5M2>;
  if (from == "e4m3x2" && !finite && to == "f16x2") return run_repack<E4M3, F16>;
  if (from == "e5m2x2" && !finite && to == "f16x2") return run_repack<E5M2, F16>;
  return nullptr;
}

bool bind_packed(const Parsed& p, Inst& inst) {
  const std::string &to = p.parts[p.parts.size() - 2], &from = p.type();
  const Modifiers m(p);
  if (!m.known) return false;
  inst.run = packed_handler(to, from, m);
  const size_t sources = from == "f32" && to != "tf32" ? 2 : 1;
  if (!inst.run || p.operands.size() != sources + 1 || target(p.operands[0]) < 0) return false;
  inst.dst[0] = target(p.operands[0]);
  for (size_t k = 0; k < sources; ++k) {
    inst.src[k] = source32(p.operands[k + 1]);
    if (inst.src[k] < 0) return false;
  }
  inst.flag[3] = m.flags;
  return true;
}

// cvt.pack.sat.TO.s32{.b32} d, a, b{, c}
bool bind_pack_integers(const Parsed& p, Inst& inst) {
  const Type to = p.parts.size() > 3 ? type_of(p.parts[3]) : Type::None;
  const bool bytes = to == Type::U8 || to == Type::S8, shorts = to == Type::U16 || to == Type::S16;
  if (!(bytes || shorts) || p.parts[2] != "sat" || p.parts.size() != (bytes ? 6u : 5u) || p.parts[4] != "s32") return false;
  if (bytes && p.type() != "b32") return false;
  if (p.operands.size() != (bytes ? 4u : 3u) || target(p.operands[0]) < 0) return false;
  inst.dst[0] = target(p.operands[0]);
  for (size_t k = 0; k < 3; ++k) inst.src[k] = source32(p.operands[k < p.operands.size() - 1 ? k + 1 : 1]);
  inst.flag[1] = uint8_t(to);
  inst.run = run_pack_integers;
  return true;
}

template <Type From>
Handler from_float_handler(const Plan& plan) {
  if (is_integer(plan.to)) return to_integer_handler<From>(plan.to);
  if (plan.to == From || width_of(plan.to) > width_of(From)) return run_float_exact<From>;
  return float_handler<From>(plan.to);
}

// Whether the modifiers are ones that the pair of types has.
bool allowed(Type from, Type to, const Modifiers& m) {
  if (m.rounding == Rounding::Away) return false;
  if ((m.flags & Ftz) && from != Type::F32 && to != Type::F32) return false;
  if (is_integer(from) && is_integer(to)) return !m.rounds && m.only(Sat);
  if (is_integer(from)) return m.rounds && m.only(Sat | Ftz);
  if (is_integer(to)) return (m.flags & Integral) && m.only(Sat | Ftz | Integral);
  const bool same = from == to, half = to == Type::F16 || to == Type::BF16;
  if (m.flags & Integral) return same && m.only(Sat | Ftz | Integral);
  if (!m.only(Sat | Ftz | (half && !same ? Relu | Finite : 0))) return false;
  const bool narrows = width_of(to) < width_of(from) || (width_of(to) == width_of(from) && !same);
  return m.rounds == narrows;
}

}  // namespace

bool bind_convert(const Parsed& p, Inst& inst) {
  if (p.op() != "cvt" || p.parts.size() < 3) return false;
  inst.klass = Class::Convert;
  if (p.parts[1] == "pack") return bind_pack_integers(p, inst);
  const Type to = type_of(p.parts[p.parts.size() - 2]), from = type_of(p.type());
  if (to == Type::None || from == Type::None) return bind_packed(p, inst);

  const Modifiers m(p);
  if (!m.known || !allowed(from, to, m) || p.operands.size() != 2 || target(p.operands[0]) < 0) return false;
  const Operand& a = p.operands[1];
  const bool wide_from = a.kind == Operand::Register ? a.width == 64 : width_of(from) == 64;
  const bool wide_to = p.operands[0].width == 64;
  // Floats narrower than their register are laid out as 32-bit lanes only.
  if (!is_integer(from) && wide_from != (width_of(from) == 64)) return false;
  if (!is_integer(to) && wide_to != (width_of(to) == 64)) return false;
  if ((is_integer(from) && width_of(from) == 64 && !wide_from) || (width_of(to) == 64 && !wide_to)) return false;
  inst.dst[0] = target(p.operands[0]);
  inst.src[0] = wide_from ? source64(a) : source32(a);
  if (inst.src[0] < 0) return false;
  inst.flag[0] = uint8_t(from);
  inst.flag[1] = uint8_t(to);
  inst.flag[2] = uint8_t(m.rounding);
  inst.flag[3] = m.flags;
  inst.flag[4] = wide_from;
  inst.flag[5] = wide_to;
  const Plan plan(inst);
  if (is_integer(from) && is_integer(to)) inst.run = m.flags & Sat ? run_integer_sat : integer_handler(wide_from, wide_to);
  else if (is_integer(from)) inst.run = from_integer_handler(plan);
  else if (from == Type::F16) inst.run = from_float_handler<Type::F16>(plan);
  else if (from == Type::BF16) inst.run = from_float_handler<Type::BF16>(plan);
  else if (from == Type::F32) inst.run = from_float_handler<Type::F32>(plan);
  else inst.run = from_float_handler<Type::F64>(plan);
  return inst.run;
}

}  // namespace ptx
