// Conversions of one value: between integers, between floats, and from one to the other. For convert.cpp alone.
#pragma once
#include <cfenv>

#include "emit.h"

namespace ptx {
namespace {

enum class Type : uint8_t { U8, S8, U16, S16, U32, S32, U64, S64, F16, BF16, F32, F64, None };

Type type_of(const std::string& name) {
  static const std::map<std::string, Type> types = {
      {"u8", Type::U8}, {"s8", Type::S8}, {"u16", Type::U16}, {"s16", Type::S16}, {"u32", Type::U32},
      {"s32", Type::S32}, {"u64", Type::U64}, {"s64", Type::S64}, {"f16", Type::F16}, {"bf16", Type::BF16},
      {"f32", Type::F32}, {"f64", Type::F64}};
  const auto found = types.find(name);
  return found == types.end() ? Type::None : found->second;
}
bool is_integer(Type t) { return t <= Type::S64; }
bool is_signed(Type t) { return is_integer(t) && int(t) % 2; }
int width_of(Type t) {
  if (is_integer(t)) return 8 << (int(t) / 2);
  return t == Type::F64 ? 64 : t == Type::F32 ? 32 : 16;
}

// Integral rounding (.rni ...) has the same four directions and no representation to fit.
enum : uint8_t { Sat = 1, Ftz = 2, Relu = 4, Finite = 8, Integral = 16 };

// inst.flag: source type, destination type, rounding, modifiers, source and destination in 64-bit registers.
struct Plan {
  Type from, to;
  Rounding rounding;
  uint8_t modifiers;
  bool wide_from, wide_to;
  explicit Plan(const Inst& i)
      : from(Type(i.flag[0])), to(Type(i.flag[1])), rounding(Rounding(i.flag[2])), modifiers(i.flag[3]),
        wide_from(i.flag[4]), wide_to(i.flag[5]) {}
};

// ---------------------------------------------------------------- integer to integer

template <typename U>
inline U extend(U value, int unused_bits, bool as_signed) {
  using S = std::make_signed_t<U>;
  const U high = value << unused_bits;
  return as_signed ? U(S(high) >> unused_bits) : high >> unused_bits;
}

template <typename From, typename To>
void run_integer(Warp& w, const Inst& inst) {
  using Work = std::conditional_t<sizeof(From) + sizeof(To) == 8, uint32_t, uint64_t>;
  constexpr int bits = 8 * sizeof(Work);
  const Plan plan(inst);
  const From* a = reinterpret_cast<const From*>(&w.reg(inst.src[0]));
  const int from_unused = bits - width_of(plan.from), to_unused = bits - width_of(plan.to);
  const bool from_signed = is_signed(plan.from), to_signed = is_signed(plan.to);
  emit(w, reinterpret_cast<To*>(&w.reg(inst.dst[0])), [=](int i) {
    return To(extend<Work>(extend<Work>(a[i], from_unused, from_signed), to_unused, to_signed));
  });
}

Handler integer_handler(bool wide_from, bool wide_to) {
  if (wide_from) return wide_to ? run_integer<uint64_t, uint64_t> : run_integer<uint64_t, uint32_t>;
  return wide_to ? run_integer<uint32_t, uint64_t> : run_integer<uint32_t, uint32_t>;
}

// ---------------------------------------------------------------- reading and writing one lane

inline uint64_t raw(const Reg& r, bool wide, int lane) { return wide ? r.u64[lane] : r.u32[lane]; }

inline __int128 integer_at(const Reg& r, const Plan& plan, int lane) {
  const uint64_t bits = extend<uint64_t>(raw(r, plan.wide_from, lane), 64 - width_of(plan.from), is_signed(plan.from));
  return is_signed(plan.from) ? __int128(int64_t(bits)) : __int128(bits);
}

inline __int128 smallest(Type t) { return is_signed(t) ? -(__int128(1) << (width_of(t) - 1)) : 0; }
inline __int128 largest(Type t) { return (__int128(1) << (width_of(t) - is_signed(t))) - 1; }

inline void write(Warp& w, const Inst& inst, bool wide, int lane, uint64_t bits) {
  Reg& d = w.reg(inst.dst[0]);
  if (wide) d.u64[lane] = bits;
  else d.u32[lane] = uint32_t(bits);
}

void run_integer_sat(Warp& w, const Inst& inst) {
  const Plan plan(inst);
  const Reg& a = w.reg(inst.src[0]);
  each_lane(w.active, [&](int i) {
    const __int128 x = integer_at(a, plan, i), low = smallest(plan.to), high = largest(plan.to);
    write(w, inst, plan.wide_to, i, uint64_t(x < low ? low : x > high ? high : x));
  });
}

// ---------------------------------------------------------------- floats

template <Type T>
[[gnu::always_inline]] inline double float_at(const Reg& r, int lane, bool ftz) {
  if (T == Type::F64) return r.f64[lane];
  if (T == Type::F32) return bits_as<float>(ftz ? flush<F32>(r.u32[lane]) : r.u32[lane]);
  return T == Type::F16 ? decode<F16>(r.u32[lane]) : decode<BF16>(r.u32[lane]);
}

// The rounding is no parameter of templates: every combination with two types would be compiled by itself.
[[gnu::noinline]] void to_integral(double* x, Rounding r) {
  switch (r) {
    case Rounding::Nearest: for (int i = 0; i < kLanes; ++i) x[i] = std::nearbyint(x[i]); break;
    case Rounding::Zero: for (int i = 0; i < kLanes; ++i) x[i] = std::trunc(x[i]); break;
    case Rounding::Down: for (int i = 0; i < kLanes; ++i) x[i] = std::floor(x[i]); break;
    default: for (int i = 0; i < kLanes; ++i) x[i] = std::ceil(x[i]); break;
  }
}

// A float to an integer: clamped to the type, NaN to 0. Bounds are exact in double; `high` is one past.
template <typename To>
inline To clamped(double integral, double low, double high, To smallest, To largest) {
  // The conversion must not see a value out of range, for which C++ promises nothing.
  const bool inside = integral >= low && integral < high;
  const To value = To(inside ? integral : 0.0);
  return inside ? value : integral < low ? smallest : integral >= high ? largest : 0;
}

template <Type From, typename To>
void run_to_integer(Warp& w, const Inst& inst) {
  const Plan plan(inst);
  const Reg& a = w.reg(inst.src[0]);
  const bool ftz = plan.modifiers & Ftz;
  alignas(64) double x[kLanes];
  for (int i = 0; i < kLanes; ++i) x[i] = float_at<From>(a, i, ftz);
  to_integral(x, plan.rounding);
  const To least = To(smallest(plan.to)), most = To(largest(plan.to));
  const double low = double(least), high = std::ldexp(1.0, width_of(plan.to) - is_signed(plan.to));
  const auto f = [&](int i) { return clamped<To>(x[i], low, high, least, most); };
  Reg& d = w.reg(inst.dst[0]);
  // Narrower results are extended to the register as their own type is signed.
  if (plan.wide_to) emit(w, d.u64, [&](int i) { return uint64_t(f(i)); });
  else emit(w, d.u32, [&](int i) { return uint32_t(f(i)); });
}

template <Type From>
Handler to_integer_handler(Type to) {
  if (width_of(to) < 64) return is_signed(to) ? run_to_integer<From, int32_t> : run_to_integer<From, uint32_t>;
  return is_signed(to) ? run_to_integer<From, int64_t> : run_to_integer<From, uint64_t>;
}

// Doubles to the codes of a float type, each rounded once.
template <typename F, Rounding R>
[[gnu::noinline]] void narrow(const double* __restrict x, uint32_t* __restrict codes, uint8_t modifiers) {
  if (std::is_same<F, F32>::value && R == Rounding::Nearest) {
    for (int i = 0; i < kLanes; ++i) {   // the host's own conversion is the same and faster
      const uint32_t code = bits_as<uint32_t>(float(x[i]));
      codes[i] = is_nan<F32>(code) ? F32::kNan : code;
    }
  } else {
    encode_lanes<F, R>(x, codes, modifiers & Finite);
  }
  if (std::is_same<F, F32>::value && (modifiers & Ftz))
    for (int i = 0; i < kLanes; ++i) codes[i] = flush<F>(codes[i]);
  if (modifiers & Sat) for (int i = 0; i < kLanes; ++i) codes[i] = saturate<F>(codes[i]);
  if (modifiers & Relu) for (int i = 0; i < kLanes; ++i) codes[i] = relu<F>(codes[i]);
}

// dst = x, rounded to F.
template <typename F>
[[gnu::noinline]] void emit_narrow(Warp& w, const Inst& inst, Rounding r, const double* x) {
  alignas(64) uint32_t codes[kLanes];
  const uint8_t modifiers = inst.flag[3];
  switch (r) {
    case Rounding::Nearest: narrow<F, Rounding::Nearest>(x, codes, modifiers); break;
    case Rounding::Zero: narrow<F, Rounding::Zero>(x, codes, modifiers); break;
    case Rounding::Down: narrow<F, Rounding::Down>(x, codes, modifiers); break;
    default: narrow<F, Rounding::Up>(x, codes, modifiers); break;
  }
  emit(w, w.reg(inst.dst[0]).u32, [&](int i) { return codes[i]; });
}

// dst = {high(lane), low(lane)}, each rounded to F.
template <typename F, Rounding R, typename High, typename Low>
inline void emit_packed(Warp& w, const Inst& inst, High high, Low low) {
  alignas(64) double x[kLanes];
  alignas(64) uint32_t upper[kLanes], lower[kLanes];
  for (int i = 0; i < kLanes; ++i) x[i] = high(i);
  narrow<F, R>(x, upper, inst.flag[3]);
  for (int i = 0; i < kLanes; ++i) x[i] = low(i);
  narrow<F, R>(x, lower, inst.flag[3]);
  emit(w, w.reg(inst.dst[0]).u32, [&](int i) { return upper[i] << F::kWidth | lower[i]; });
}

template <Type From, typename To>
void run_float(Warp& w, const Inst& inst) {
  const Plan plan(inst);
  const Reg& a = w.reg(inst.src[0]);
  alignas(64) double x[kLanes];
  for (int i = 0; i < kLanes; ++i) x[i] = float_at<From>(a, i, plan.modifiers & Ftz);
  emit_narrow<To>(w, inst, plan.rounding, x);
}

// Exact conversions: to a wider type, or to the same one, as a copy (.sat, .ftz) or to an integral value.
template <Type From>
void run_float_exact(Warp& w, const Inst& inst) {
  const Plan plan(inst);
  const Reg& a = w.reg(inst.src[0]);
  const uint8_t m = plan.modifiers;
  alignas(64) double x[kLanes];
  for (int i = 0; i < kLanes; ++i) x[i] = float_at<From>(a, i, m & Ftz);
  if (m & Integral) to_integral(x, plan.rounding);
  switch (plan.to) {
    case Type::F64:
      emit(w, w.reg(inst.dst[0]).u64, [&](int i) {
        const uint64_t bits = bits_as<uint64_t>(x[i]);
        return m & Sat ? saturate<F64>(bits) : bits;
      });
      return;
    case Type::F32: emit_narrow<F32>(w, inst, Rounding::Nearest, x); return;
    case Type::F16: emit_narrow<F16>(w, inst, Rounding::Nearest, x); return;
    default: emit_narrow<BF16>(w, inst, Rounding::Nearest, x); return;
  }
}

template <Type From>
Handler float_handler(Type to) {
  if (to == Type::F32) return run_float<From, F32>;
  return to == Type::F16 ? run_float<From, F16> : run_float<From, BF16>;
}

// ---------------------------------------------------------------- integer to float

// A magnitude to double in any direction: the low bits that do not fit decide.
inline double integer_to_double(uint64_t magnitude, bool negative, Rounding r) {
  const int spare = magnitude >> 53 ? 11 - __builtin_clzll(magnitude) : 0;
  uint64_t kept = magnitude >> spare;
  const uint64_t rest = magnitude - (kept << spare), half = spare ? uint64_t(1) << (spare - 1) : 0;
  if (r == Rounding::Nearest) kept += rest > half || (rest && rest == half && (kept & 1));
  if (r == (negative ? Rounding::Down : Rounding::Up)) kept += rest != 0;
  const double x = std::ldexp(double(kept), spare);
  return negative ? -x : x;
}

// Sources of 64 bits: calls f(lane, magnitude, negative).
template <typename F>
inline void each_magnitude(Warp& w, const Inst& inst, F f) {
  const Plan plan(inst);
  const Reg& a = w.reg(inst.src[0]);
  each_lane(w.active, [&](int i) {
    const uint64_t bits = extend<uint64_t>(raw(a, plan.wide_from, i), 64 - width_of(plan.from), is_signed(plan.from));
    const bool negative = is_signed(plan.from) && bits >> 63;
    f(i, negative ? -bits : bits, negative);
  });
}

void run_integer_to_f64(Warp& w, const Inst& inst) {
  const Plan plan(inst);
  each_magnitude(w, inst, [&](int i, uint64_t magnitude, bool negative) {
    const uint64_t bits = bits_as<uint64_t>(integer_to_double(magnitude, negative, plan.rounding));
    w.reg(inst.dst[0]).u64[i] = plan.modifiers & Sat ? saturate<F64>(bits) : bits;
  });
}

template <typename To>
void run_from_integer(Warp& w, const Inst& inst) {
  alignas(64) double odd[kLanes] = {0};
  each_magnitude(w, inst, [&](int i, uint64_t magnitude, bool negative) { odd[i] = integer_odd(magnitude, negative); });
  emit_narrow<To>(w, inst, Plan(inst).rounding, odd);
}

// Sources of at most 32 bits are exact in double.
template <typename To>
void run_from_small(Warp& w, const Inst& inst) {
  const Plan plan(inst);
  const uint32_t* a = w.reg(inst.src[0]).u32;
  const int unused = 32 - width_of(plan.from);
  alignas(64) double x[kLanes];
  if (is_signed(plan.from)) for (int i = 0; i < kLanes; ++i) x[i] = double(int32_t(a[i] << unused) >> unused);
  else for (int i = 0; i < kLanes; ++i) x[i] = double(a[i] << unused >> unused);
  if constexpr (std::is_same<To, F64>::value) emit(w, w.reg(inst.dst[0]).f64, [&](int i) { return x[i]; });
  else emit_narrow<To>(w, inst, plan.rounding, x);
}

Handler from_integer_handler(const Plan& plan) {
  if (plan.to == Type::F64) return plan.wide_from || plan.modifiers ? run_integer_to_f64 : run_from_small<F64>;
  if (plan.to == Type::F32) return plan.wide_from ? run_from_integer<F32> : run_from_small<F32>;
  if (plan.to == Type::F16) return plan.wide_from ? run_from_integer<F16> : run_from_small<F16>;
  return plan.wide_from ? run_from_integer<BF16> : run_from_small<BF16>;
}

}  // namespace
}  // namespace ptx
