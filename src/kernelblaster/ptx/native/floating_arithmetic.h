// Arithmetic and approximate functions. For floating.cpp alone.
#pragma once
#ifdef __SSE2__
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

#include "approximate.h"
#include "emit.h"

namespace ptx {
namespace {

template <typename F>
inline typename F::Unsigned* data(Reg& r);
template <> inline uint32_t* data<F16>(Reg& r) { return r.u32; }
template <> inline uint32_t* data<BF16>(Reg& r) { return r.u32; }
template <> inline uint32_t* data<F32>(Reg& r) { return r.u32; }
template <> inline uint64_t* data<F64>(Reg& r) { return r.u64; }

// Modifiers, in inst.flag[0].
enum : uint8_t { Ftz = 1, Sat = 2, Relu = 4, NanWins = 8, XorSign = 16 };

// ---------------------------------------------------------------- arithmetic on f32 and f64

struct Add { template <typename T> static T of(T a, T b, T) { return a + b; } };
struct Sub { template <typename T> static T of(T a, T b, T) { return a - b; } };
struct Mul { template <typename T> static T of(T a, T b, T) { return a * b; } };
struct Fma { template <typename T> static T of(T a, T b, T c) { return std::fma(a, b, c); } };
struct Div { template <typename T> static T of(T a, T b, T) { return a / b; } };
struct Rcp { template <typename T> static T of(T a, T, T) { return T(1) / a; } };
struct Sqrt { template <typename T> static T of(T a, T, T) { return std::sqrt(a); } };

template <bool Flush>
inline float read32(uint32_t bits) { return bits_as<float>(Flush ? flush<F32>(bits) : bits); }

template <bool Flush>
inline uint32_t finish32(float x) {
  const uint32_t bits = bits_as<uint32_t>(x);
  const uint32_t flushed = Flush ? flush<F32>(bits) : bits;
  return is_nan<F32>(bits) ? F32::kNan : flushed;
}

// Sets the host's rounding mode while it lives.
struct HostRounding {
#ifdef __SSE2__   // which does all arithmetic here: setting the x87's mode too, as fesetround does, takes longer
  const unsigned before = _mm_getcsr();
  explicit HostRounding(Rounding r) {
    const unsigned mode = r == Rounding::Zero ? _MM_ROUND_TOWARD_ZERO : r == Rounding::Down ? _MM_ROUND_DOWN : _MM_ROUND_UP;
    _mm_setcsr((before & ~_MM_ROUND_MASK) | mode);
    asm volatile("" : : : "memory");
  }
  ~HostRounding() {
    asm volatile("" : : : "memory");
    _mm_setcsr(before);
  }
#else
  const int before = std::fegetround();
  explicit HostRounding(Rounding r) {
    std::fesetround(r == Rounding::Zero ? FE_TOWARDZERO : r == Rounding::Down ? FE_DOWNWARD : FE_UPWARD);
    asm volatile("" : : : "memory");
  }
  ~HostRounding() {
    asm volatile("" : : : "memory");
    std::fesetround(before);
  }
#endif
};

template <typename Op, bool Flush, bool Saturate>
void run32(Warp& w, const Inst& inst) {
  const uint32_t *a = w.reg(inst.src[0]).u32, *b = w.reg(inst.src[1]).u32, *c = w.reg(inst.src[2]).u32;
  emit(w, w.reg(inst.dst[0]).u32, [=](int i) {
    const uint32_t bits = finish32<Flush>(Op::of(read32<Flush>(a[i]), read32<Flush>(b[i]), read32<Flush>(c[i])));
    return Saturate ? saturate<F32>(bits) : bits;
  });
}

template <typename Op>
void run64(Warp& w, const Inst& inst) {
  const double *a = w.reg(inst.src[0]).f64, *b = w.reg(inst.src[1]).f64, *c = w.reg(inst.src[2]).f64;
  emit(w, w.reg(inst.dst[0]).f64, [=](int i) { return Op::of(a[i], b[i], c[i]); });
}

template <Handler Run>
void directed(Warp& w, const Inst& inst) {
  HostRounding rounding(Rounding(inst.flag[1]));
  Run(w, inst);
}

template <Handler Run>
Handler rounded(Rounding r) { return r == Rounding::Nearest ? Run : directed<Run>; }

template <typename Op>
Handler arithmetic32(uint8_t flags, Rounding r) {
  switch (flags) {
    case 0: return rounded<run32<Op, false, false>>(r);
    case Ftz: return rounded<run32<Op, true, false>>(r);
    case Sat: return rounded<run32<Op, false, true>>(r);
    case Ftz | Sat: return rounded<run32<Op, true, true>>(r);
    default: return nullptr;
  }
}

// ---------------------------------------------------------------- arithmetic on halves

// Exact, or rounded to odd where a double cannot hold the exact result.
struct AddOdd { static double of(double a, double b, double) { return add_odd(a, b); } };
struct SubOdd { static double of(double a, double b, double) { return add_odd(a, -b); } };
struct MulOdd { static double of(double a, double b, double) { return a * b; } };
struct FmaOdd { static double of(double a, double b, double c) { return add_odd(a * b, c); } };

// One half of every lane, `shift` bits up. Short loops, one thing each, all vectorize.
template <typename H, typename Op, Rounding R>
void half_lanes(Warp& w, const Inst& inst, int shift, uint32_t* __restrict codes) {
  alignas(64) float in[3][kLanes];
  alignas(64) double exact[kLanes];
  const uint8_t flags = inst.flag[0];
  for (int k = 0; k < 3; ++k) {
    const uint32_t* source = w.reg(inst.src[k]).u32;
    if (flags & Ftz) for (int i = 0; i < kLanes; ++i) in[k][i] = decode<H>(flush<H>(source[i] >> shift));
    else for (int i = 0; i < kLanes; ++i) in[k][i] = decode<H>(source[i] >> shift);
  }
  for (int i = 0; i < kLanes; ++i) exact[i] = Op::of(in[0][i], in[1][i], in[2][i]);
  encode_lanes<H, R>(exact, codes, false);
  if (flags & Ftz) for (int i = 0; i < kLanes; ++i) codes[i] = flush<H>(codes[i]);
  if (flags & Sat) for (int i = 0; i < kLanes; ++i) codes[i] = saturate<H>(codes[i]);
  if (flags & Relu) for (int i = 0; i < kLanes; ++i) codes[i] = relu<H>(codes[i]);
}

template <typename H, int Halves, typename Op, Rounding R>
void run_half(Warp& w, const Inst& inst) {
  alignas(64) uint32_t low[kLanes], high[kLanes] = {0};
  half_lanes<H, Op, R>(w, inst, 0, low);
  if (Halves == 2) half_lanes<H, Op, R>(w, inst, 16, high);
  emit(w, w.reg(inst.dst[0]).u32, [&](int i) { return low[i] | high[i] << 16; });
}

template <typename Op, Rounding R = Rounding::Nearest>
Handler arithmetic16(const std::string& type) {
  if (type == "f16") return run_half<F16, 1, Op, R>;
  if (type == "f16x2") return run_half<F16, 2, Op, R>;
  if (type == "bf16") return run_half<BF16, 1, Op, R>;
  if (type == "bf16x2") return run_half<BF16, 2, Op, R>;
  return nullptr;
}

// ---------------------------------------------------------------- approximate functions

// An f32 function by way of double.
template <typename Op>
struct ByDouble { static float of(float a, float, float) { return float(Op::of(a, 0, 0)); } };

// The documented exception to div.approx: divisors above 2^126 have no normal reciprocal and give 0.
struct DivApprox {
  static float of(float a, float b, float) {
    const float divisor = std::fabs(b);
    const bool beyond = divisor > 0x1p126f && divisor < std::numeric_limits<float>::infinity();
    return beyond ? a * std::copysign(0.0f, b) : a / b;
  }
};

// rcp and rsqrt of f64 in `.approx.ftz` form see and give only the upper word.
template <typename Op>
struct UpperWord {
  static double of(double a, double, double) {
    const uint64_t input = flush<F64>(bits_as<uint64_t>(a)) & ~uint64_t(0xffffffff);
    const double exact = Op::of(is_nan<F64>(bits_as<uint64_t>(a)) ? a : bits_as<double>(input), 0.0, 0.0);
    if (exact != exact) return bits_as<double>(F64::kNan & ~uint64_t(0xffffffff));
    const uint64_t bits = bits_as<uint64_t>(exact) + (std::isfinite(exact) ? 0x80000000u : 0);
    return bits_as<double>(flush<F64>(bits & ~uint64_t(0xffffffff)));
  }
};

}  // namespace
}  // namespace ptx
