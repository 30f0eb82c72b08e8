// Floating-point formats as bit patterns: what each looks like, and exact conversion from and to double.
//
// Every narrow result is rounded once, by encode(), from a double that either is exact or was rounded to
// odd: a double has more than two bits to spare over each of the formats, so that rounding an odd double
// gives the correctly rounded result in every mode (Boldo and Melquiond).
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace ptx {

enum class Rounding : uint8_t { Nearest, Zero, Down, Up, Away };  // Away: to nearest, ties away from zero

template <typename To, typename From>
inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "same size");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// Codes without the sign bit: `kMax` is the largest finite one. e4m3 has no infinity.
template <typename U, typename S, int Width, int Mantissa, int MinExponent, U Max, U Infinity, U Nan>
struct Format {
  using Unsigned = U;
  using Signed = S;
  static constexpr int kWidth = Width, kMantissa = Mantissa, kMinExponent = MinExponent;
  static constexpr U kMax = Max, kInfinity = Infinity, kNan = Nan;
  static constexpr U kSign = U(1) << (Width - 1), kMagnitude = kSign - 1, kSmallestNormal = U(1) << Mantissa;
  static constexpr U kOne = U(-MinExponent + 1) << Mantissa;
};
using F16 = Format<uint32_t, int32_t, 16, 10, -14, 0x7bff, 0x7c00, 0x7fff>;
using BF16 = Format<uint32_t, int32_t, 16, 7, -126, 0x7f7f, 0x7f80, 0x7fff>;
using E4M3 = Format<uint32_t, int32_t, 8, 3, -6, 0x7e, 0x7f, 0x7f>;
using E5M2 = Format<uint32_t, int32_t, 8, 2, -14, 0x7b, 0x7c, 0x7f>;
using TF32 = Format<uint32_t, int32_t, 19, 10, -126, 0x3fbff, 0x3fc00, 0x3ffff>;
using F32 = Format<uint32_t, int32_t, 32, 23, -126, 0x7f7fffffu, 0x7f800000u, 0x7fffffffu>;
using F64 = Format<uint64_t, int64_t, 64, 52, -1022, 0x7fefffffffffffffull, 0x7ff0000000000000ull, 0x7fffffffffffffffull>;

template <typename F>
[[gnu::always_inline]] inline bool is_nan(typename F::Unsigned code) { return (code & F::kMagnitude) > F::kInfinity; }
template <>
[[gnu::always_inline]] inline bool is_nan<E4M3>(uint32_t code) { return (code & 0x7f) == 0x7f; }

// The code of x in format F. With `finite`, what would overflow (infinity too) becomes the largest finite
// value instead. Without branches, so that loops over it vectorize; the host must round to nearest.
template <typename F, Rounding R>
[[gnu::always_inline]] inline uint32_t encode(double x, bool finite = false) {
  const uint64_t bits = bits_as<uint64_t>(x), magnitude = bits & F64::kMagnitude;
  const int64_t negative = int64_t(bits >> 63);
  int64_t exponent = int64_t(magnitude >> 52) - 1023;
  exponent = exponent < F::kMinExponent ? F::kMinExponent : exponent;
  // In units of the result's last place x is below 2^(mantissa + 1); adding 2^52 leaves it rounded to
  // nearest, ties to even, in the low bits of the sum.
  const double unit = bits_as<double>(uint64_t(1023 - exponent + F::kMantissa) << 52);
  const double scaled = bits_as<double>(magnitude) * unit, sum = scaled + 0x1p52;
  const double rest = scaled - (sum - 0x1p52);   // what the rounding to nearest left, from -1/2 to 1/2
  const int64_t above = rest > 0 ? 1 : 0, below = rest < 0 ? 1 : 0;
  int64_t whole = int64_t(bits_as<uint64_t>(sum) & 0xfffffffffffffull);
  if (R == Rounding::Zero) whole -= below;
  if (R == Rounding::Away) whole += rest == 0.5 ? 1 : 0;
  if (R == Rounding::Up) whole += negative ? -below : above;
  if (R == Rounding::Down) whole += negative ? above : -below;
  // The implicit bit of a normal `whole` carries into the exponent field, and so does rounding up.
  int64_t code = ((exponent - F::kMinExponent) << F::kMantissa) + whole;
  const int64_t edge = finite ? F::kMax : F::kInfinity;
  const int64_t beyond = R == Rounding::Zero ? int64_t(F::kMax) : R == Rounding::Up ? (negative ? int64_t(F::kMax) : edge)
                       : R == Rounding::Down ? (negative ? edge : int64_t(F::kMax)) : edge;
  code = code > int64_t(F::kMax) ? beyond : code;
  code = magnitude == F64::kInfinity ? edge : code;
  code |= negative << (F::kWidth - 1);
  return uint32_t(magnitude > F64::kInfinity ? int64_t(F::kNan) : code);
}

// encode() for all lanes of a warp. A loop and a function of its own, since the compiler gives up on
// vectorizing when other conditions surround it.
template <typename F, Rounding R>
[[gnu::noinline]] void encode_lanes(const double* __restrict x, uint32_t* __restrict codes, bool finite) {
  if (finite) {
    for (int i = 0; i < 32; ++i) codes[i] = encode<F, R>(x[i], true);
  } else {
    for (int i = 0; i < 32; ++i) codes[i] = encode<F, R>(x[i], false);
  }
}

// The value of a code of at most 19 bits; bits above the format's are ignored.
template <typename F>
[[gnu::always_inline]] inline float decode(uint32_t code) {
  const uint32_t magnitude = code & F::kMagnitude;
  // Exponents biased as the format's, then corrected by a multiplication, which also normalizes.
  const float correction = bits_as<float>(uint32_t(126 + F::kMinExponent + 127) << 23);
  uint32_t bits = bits_as<uint32_t>(bits_as<float>(magnitude << (23 - F::kMantissa)) * correction);
  bits = magnitude == F::kInfinity ? F32::kInfinity : bits;
  bits = is_nan<F>(code) ? F32::kNan : bits;
  return bits_as<float>(bits | (is_nan<F>(code) ? 0 : (code & F::kSign) << (32 - F::kWidth)));
}
template <>
[[gnu::always_inline]] inline float decode<BF16>(uint32_t code) { return bits_as<float>(code << 16); }

// Subnormal codes become zeros of the same sign.
template <typename F>
[[gnu::always_inline]] inline typename F::Unsigned flush(typename F::Unsigned code) {
  return (code & F::kMagnitude) < F::kSmallestNormal ? code & F::kSign : code;
}

// Clamps to [0, 1]; NaN and -0 become +0.
template <typename F>
[[gnu::always_inline]] inline typename F::Unsigned saturate(typename F::Unsigned code) {
  const typename F::Unsigned clamped = code > F::kOne ? F::kOne : code;   // negative codes are the largest
  return ((code & F::kSign) != 0) | is_nan<F>(code) ? 0 : clamped;
}

// Negative values become +0; NaN stays.
template <typename F>
[[gnu::always_inline]] inline typename F::Unsigned relu(typename F::Unsigned code) {
  return ((code & F::kSign) != 0) & !is_nan<F>(code) ? 0 : code;
}

// `near` is an exact result rounded to nearest, `lacks` (or its sign) what the exact one has more: the same
// rounded to odd. Infinities and NaNs come with a NaN in `lacks` and stay.
[[gnu::always_inline]] inline double to_odd(double near, double lacks) {
  const int64_t bits = bits_as<int64_t>(near);
  const int64_t inexact = (lacks > 0 ? 1 : 0) | (lacks < 0 ? 1 : 0), even = ~bits & 1;
  const int64_t opposite = (bits_as<int64_t>(lacks) ^ bits) >> 63;   // 0, or -1 where the magnitude shrinks
  const int64_t step = inexact & even;
  return bits_as<double>(bits + ((step ^ opposite) - opposite));
}

// a + b rounded to odd; exact error by Knuth's TwoSum.
[[gnu::always_inline]] inline double add_odd(double a, double b) {
  const double sum = a + b, part = sum - a;
  return to_odd(sum, (a - (sum - part)) + (b - part));
}

// An integer rounded to odd, to 43 bits or more.
inline double integer_odd(uint64_t magnitude, bool negative) {
  if (magnitude >> 53) magnitude = (magnitude >> 11 | ((magnitude & 0x7ff) != 0)) << 11;
  const double x = double(magnitude);
  return negative ? -x : x;
}

}  // namespace ptx
