// Approximate functions, no more exact than hardware: a kernel that relies on few bits must see few bits here too.
// The forms of the errors of sin, cos, lg2 and of halves were measured on an H200; tanh has the error that PTX
// documents for all GPUs, 2^-11 (an H200 does better: 2^-16.5). Functions good to 2 units in the last place are
// computed nearly exactly. For floating.cpp alone.
#pragma once
#include <algorithm>

#include "emit.h"

namespace ptx {
namespace {

constexpr double kTanhError = 0x1p-11;   // relative, at most
constexpr double kTwoPi = 6.283185307179586;

// 2^x to about 1e-12.
inline double exp2_near(double x) {
  const double bounded = x > -1000 ? (x < 1000 ? x : 1000) : -1000;   // NaN too
  const double whole = std::nearbyint(bounded), t = (bounded - whole) * 0.6931471805599453;
  double sum = 1.0 / 39916800;
  for (double inverse : {1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24,
                         1.0 / 6, 0.5, 1.0, 1.0})
    sum = sum * t + inverse;
  const double result = sum * bits_as<double>(uint64_t(1023 + int32_t(whole)) << 52);
  return x != x ? x : result;
}

// log2 of a float. The mantissa is centred on 1, where log(m) = 2 atanh((m - 1) / (m + 1)).
inline double log2_near(double x) {
  const uint64_t bits = bits_as<uint64_t>(x);
  const uint64_t centred = bits - 0x3fe6a09e667f3bcdull;   // bits of sqrt(1/2)
  const int32_t exponent = int32_t(int64_t(centred) >> 52);
  const double m = bits_as<double>((centred & 0xfffffffffffffull) + 0x3fe6a09e667f3bcdull);
  const double s = (m - 1) / (m + 1), q = s * s;
  double sum = 1.0 / 19;
  for (double inverse : {1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0})
    sum = sum * q + inverse;
  const double infinity = std::numeric_limits<double>::infinity();
  double result = exponent + s * sum * 2.8853900817779268;
  result = x == 0 ? -infinity : x < 0 ? std::numeric_limits<double>::quiet_NaN() : result;
  return x == infinity || x != x ? x : result;
}

inline double tanh_near(double x) {
  const double bounded = x < -30 ? -30 : x > 30 ? 30 : x;
  const double far = 1 - 2 / (exp2_near(bounded * 2.8853900817779268) + 1);
  const double q = x * x, near = x * (1 - q * (1.0 / 3) + q * q * (2.0 / 15));
  return std::fabs(x) < 0.01 ? near : x != x ? x : far;
}

// A number between -1 and 1 that depends on every bit of x, and on nothing else.
inline double noise(float x) {
  uint32_t h = bits_as<uint32_t>(x) * 0x9e3779b1u;
  h = (h ^ h >> 15) * 0x85ebca77u;
  h = (h ^ h >> 13) * 0xc2b2ae3du;
  return (double)(int32_t)(h ^ h >> 16) * 0x1p-31;
}

// Exact where it is nearly x or nearly 1, as on hardware.
inline double tanh_coarse(double x) {
  const double t = tanh_near(x), size = std::fabs(t);
  const double scale = std::min({1.0, 4 * size, 4 * (1 - size)});
  return t + t * (kTanhError * scale * noise((float)std::fabs(x)));
}

// In (1/2, 2) the error is absolute.
inline double log2_coarse(double x) {
  const double result = log2_near(x), steps = result * 0x1p22;
  return std::fabs(result) < 1 ? std::nearbyint(steps) * 0x1p-22 : result;
}

// The argument in turns: a float product, truncated, then multiples of 2^-24.
inline double turns(double x) {
  const double exact = x * (double)0.15915494309189535f;
  float t = (float)exact;
  if (std::fabs((double)t) > std::fabs(exact)) t = bits_as<float>(bits_as<uint32_t>(t) - 1);
  const double steps = (double)t * 0x1p24;
  return std::fabs(t) < 1 ? std::nearbyint(steps) * 0x1p-24 : (double)t;
}

struct Ex2 { static double of(double x, double, double) { return exp2_near(x); } };
struct Lg2 { static double of(double x, double, double) { return log2_coarse(x); } };
struct Tanh { static double of(double x, double, double) { return tanh_near(x); } };
struct TanhCoarse { static double of(double x, double, double) { return tanh_coarse(x); } };
struct Sin { static double of(double x, double, double) { return std::sin(kTwoPi * turns(x)); } };
struct Cos { static double of(double x, double, double) { return std::cos(kTwoPi * turns(x)); } };
struct Rsqrt { static double of(double x, double, double) { return 1 / std::sqrt(x); } };

}  // namespace
}  // namespace ptx
