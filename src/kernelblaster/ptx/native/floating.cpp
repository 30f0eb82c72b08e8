// Floating-point arithmetic, comparison and approximate functions for f16, bf16, f32 and f64.
//
// f32 and f64 round to nearest with the host's own instructions and in other modes with the host's
// rounding mode set around the loop. Halves are computed in double and rounded once. Everything that only
// compares or moves bits (min, abs, setp, ...) works on bit patterns, so that NaN and signed zero need no
// special care from the host.
//
// Approximate functions are close to correctly rounded, well within the documented error, but not the
// bits of any GPU.
#pragma GCC optimize("no-trapping-math", "no-math-errno")  // flags and errno are never read: lets loops vectorize
#include <cfenv>

#include "half.h"
#include "machine.h"

namespace ptx {
namespace {

// dst = f(lane). All lanes are computed in a buffer, which cannot alias the sources, then blended. The
// barrier keeps the computation before whatever restores the rounding mode.
template <typename T, typename F>
inline void emit(Warp& w, T* out, F f) {
  alignas(64) T result[kLanes];
  for (int i = 0; i < kLanes; ++i) result[i] = f(i);
  asm volatile("" : "+m"(result) : : "memory");
  if (w.active == kAllLanes) {
    std::memcpy(out, result, sizeof result);
  } else {
    const uint32_t active = w.active;
    for (int i = 0; i < kLanes; ++i) out[i] = active >> i & 1 ? result[i] : out[i];
  }
}

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
  const int before = std::fegetround();
  explicit HostRounding(Rounding r) {
    std::fesetround(r == Rounding::Zero ? FE_TOWARDZERO : r == Rounding::Down ? FE_DOWNWARD : FE_UPWARD);
    asm volatile("" : : : "memory");
  }
  ~HostRounding() {
    asm volatile("" : : : "memory");
    std::fesetround(before);
  }
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
template <typename H, typename Op>
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
  encode_lanes<H, Rounding::Nearest>(exact, codes, false);
  if (flags & Ftz) for (int i = 0; i < kLanes; ++i) codes[i] = flush<H>(codes[i]);
  if (flags & Sat) for (int i = 0; i < kLanes; ++i) codes[i] = saturate<H>(codes[i]);
  if (flags & Relu) for (int i = 0; i < kLanes; ++i) codes[i] = relu<H>(codes[i]);
}

template <typename H, int Halves, typename Op>
void run_half(Warp& w, const Inst& inst) {
  alignas(64) uint32_t low[kLanes], high[kLanes] = {0};
  half_lanes<H, Op>(w, inst, 0, low);
  if (Halves == 2) half_lanes<H, Op>(w, inst, 16, high);
  emit(w, w.reg(inst.dst[0]).u32, [&](int i) { return low[i] | high[i] << 16; });
}

template <typename Op>
Handler arithmetic16(const std::string& type) {
  if (type == "f16") return run_half<F16, 1, Op>;
  if (type == "f16x2") return run_half<F16, 2, Op>;
  if (type == "bf16") return run_half<BF16, 1, Op>;
  if (type == "bf16x2") return run_half<BF16, 2, Op>;
  return nullptr;
}

// ---------------------------------------------------------------- approximate functions

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

struct Ex2 { static double of(double x, double, double) { return exp2_near(x); } };
struct Lg2 { static double of(double x, double, double) { return log2_near(x); } };
struct Tanh { static double of(double x, double, double) { return tanh_near(x); } };
struct Sin { static double of(double x, double, double) { return std::sin(x); } };
struct Cos { static double of(double x, double, double) { return std::cos(x); } };
struct Rsqrt { static double of(double x, double, double) { return 1 / std::sqrt(x); } };

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

// ---------------------------------------------------------------- operations on bit patterns

// Order of the non-NaN codes of F, -0 below +0.
template <typename F>
inline typename F::Signed order(typename F::Unsigned code) {
  using S = typename F::Signed;
  return code & F::kSign ? ~S(code & F::kMagnitude) : S(code & F::kMagnitude);
}

template <typename F, bool Larger>
[[gnu::always_inline]] inline typename F::Unsigned extreme(typename F::Unsigned a, typename F::Unsigned b, uint8_t flags) {
  using U = typename F::Unsigned;
  const U sign = flags & XorSign ? (a ^ b) & F::kSign : 0, keep = flags & XorSign ? F::kMagnitude : ~U(0);
  a &= keep;
  b &= keep;
  const bool first = Larger ? order<F>(a) > order<F>(b) : order<F>(a) < order<F>(b);
  const bool nan_a = is_nan<F>(a), nan_b = is_nan<F>(b);
  const bool nan = flags & NanWins ? nan_a | nan_b : nan_a & nan_b;
  const U result = (first | nan_b) & !nan_a ? a : b;
  return nan ? F::kNan : result | sign;
}

template <typename F> using Code = typename F::Unsigned;
struct Min { template <typename F> static Code<F> of(Code<F> a, Code<F> b, uint8_t flags) { return extreme<F, false>(a, b, flags); } };
struct Max { template <typename F> static Code<F> of(Code<F> a, Code<F> b, uint8_t flags) { return extreme<F, true>(a, b, flags); } };
struct Neg { template <typename F> static Code<F> of(Code<F> a, Code<F>, uint8_t) { return a ^ F::kSign; } };
struct Abs { template <typename F> static Code<F> of(Code<F> a, Code<F>, uint8_t) { return a & F::kMagnitude; } };
struct CopySign {
  template <typename F> static Code<F> of(Code<F> a, Code<F> b, uint8_t) { return (a & F::kSign) | (b & F::kMagnitude); }
};

template <typename F, typename Op>
[[gnu::always_inline]] inline Code<F> pattern(Code<F> a, Code<F> b, uint8_t flags) {
  a &= F::kSign | F::kMagnitude;
  b &= F::kSign | F::kMagnitude;
  a = flags & Ftz ? flush<F>(a) : a;
  b = flags & Ftz ? flush<F>(b) : b;
  return Op::template of<F>(a, b, flags);
}

template <typename F, int Parts, typename Op>
void run_pattern(Warp& w, const Inst& inst) {
  const Code<F>*a = data<F>(w.reg(inst.src[0])), *b = data<F>(w.reg(inst.src[1]));
  const uint8_t flags = inst.flag[0];
  alignas(64) Code<F> high[kLanes] = {0};
  if (Parts == 2)
    for (int i = 0; i < kLanes; ++i) high[i] = pattern<F, Op>(a[i] >> 16, b[i] >> 16, flags) << 16;
  emit(w, data<F>(w.reg(inst.dst[0])), [&](int i) { return high[i] | pattern<F, Op>(a[i], b[i], flags); });
}

template <typename Op>
Handler patterns(const std::string& type) {
  if (type == "f16") return run_pattern<F16, 1, Op>;
  if (type == "f16x2") return run_pattern<F16, 2, Op>;
  if (type == "bf16") return run_pattern<BF16, 1, Op>;
  if (type == "bf16x2") return run_pattern<BF16, 2, Op>;
  if (type == "f32") return run_pattern<F32, 1, Op>;
  if (type == "f64") return run_pattern<F64, 1, Op>;
  return nullptr;
}

// ---------------------------------------------------------------- comparison

// How two values stand, as a bit number; a comparison is the set of bits for which it holds.
enum : uint8_t { Less = 1, Equal = 2, Greater = 4, Unordered = 8 };

const std::map<std::string, uint8_t> kComparisons = {
    {"eq", Equal}, {"ne", Less | Greater}, {"lt", Less}, {"le", Less | Equal}, {"gt", Greater},
    {"ge", Greater | Equal}, {"equ", Equal | Unordered}, {"neu", Less | Greater | Unordered},
    {"ltu", Less | Unordered}, {"leu", Less | Equal | Unordered}, {"gtu", Greater | Unordered},
    {"geu", Greater | Equal | Unordered}, {"num", Less | Equal | Greater}, {"nan", Unordered}};

template <typename F>
inline uint32_t holds(Code<F> a, Code<F> b, bool ftz, uint8_t comparison) {
  using S = typename F::Signed;
  if (ftz) a = flush<F>(a), b = flush<F>(b);
  const S x = a & F::kSign ? -S(a & F::kMagnitude) : S(a & F::kMagnitude);   // -0 equals +0
  const S y = b & F::kSign ? -S(b & F::kMagnitude) : S(b & F::kMagnitude);
  const uint32_t ordered = x < y ? comparison & Less : x == y ? comparison & Equal : comparison & Greater;
  return (is_nan<F>(a) || is_nan<F>(b) ? comparison & Unordered : ordered) != 0;
}

template <typename F>
inline uint32_t compare(Warp& w, const Inst& inst, int shift) {
  const Code<F>*a = data<F>(w.reg(inst.src[0])), *b = data<F>(w.reg(inst.src[1]));
  const bool ftz = inst.flag[0] & Ftz;
  const uint8_t comparison = inst.flag[1];
  uint32_t mask = 0;
  for (int i = 0; i < kLanes; ++i) mask |= holds<F>(a[i] >> shift, b[i] >> shift, ftz, comparison) << i;
  return mask;
}

// The optional `.and/.or/.xor c` of setp and set: inst.flag[2] is its first letter, src[2] is c.
inline uint32_t combine(Warp& w, const Inst& inst, uint32_t mask) {
  if (!inst.flag[2]) return mask;
  const uint32_t c = w.reg(inst.src[2]).mask ^ (inst.flag[3] ? kAllLanes : 0);
  return inst.flag[2] == 'a' ? mask & c : inst.flag[2] == 'o' ? mask | c : mask ^ c;
}

inline void write_predicate(Warp& w, int dst, uint32_t mask) {
  if (dst < 0) return;
  Reg& d = w.reg(dst);
  d.mask = (d.mask & ~w.active) | (mask & w.active);
}

// A packed comparison answers for the low half in p and for the high half in q; any other one answers in
// p, and q gets the opposite.
template <typename F, int Parts>
void run_setp(Warp& w, const Inst& inst) {
  const uint32_t first = compare<F>(w, inst, 0);
  const uint32_t second = Parts == 2 ? compare<F>(w, inst, F::kWidth % 32) : ~first;
  const uint32_t p = combine(w, inst, first), q = combine(w, inst, second);
  write_predicate(w, inst.dst[0], p);
  write_predicate(w, inst.dst[1], q);
}

// imm[0] is what a true (low) half gives.
template <typename F, int Parts>
void run_set(Warp& w, const Inst& inst) {
  const uint32_t low = combine(w, inst, compare<F>(w, inst, 0));
  const uint32_t high = Parts == 2 ? combine(w, inst, compare<F>(w, inst, F::kWidth % 32)) : 0;
  const uint32_t yes = uint32_t(inst.imm[0]);
  emit(w, w.reg(inst.dst[0]).u32, [=](int i) {
    return (low >> i & 1 ? yes : 0) | (high >> i & 1 ? yes << 16 : 0);
  });
}

enum : uint8_t { Finite, Infinite, Number, NotANumber, Normal, Subnormal };

template <typename F>
void run_testp(Warp& w, const Inst& inst) {
  const Code<F>* a = data<F>(w.reg(inst.src[0]));
  lanes_predicate(w, inst.dst[0], [&](int i) {
    const Code<F> magnitude = a[i] & F::kMagnitude;
    switch (inst.flag[1]) {
      case Finite: return magnitude < F::kInfinity;
      case Infinite: return magnitude == F::kInfinity;
      case Number: return magnitude <= F::kInfinity;
      case NotANumber: return magnitude > F::kInfinity;
      case Normal: return magnitude >= F::kSmallestNormal && magnitude < F::kInfinity;
      default: return magnitude != 0 && magnitude < F::kSmallestNormal;
    }
  });
}

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
    return m.flags ? nullptr : flushing<ByDouble<Tanh>>(m);
  }
  if (type == "f64") {
    if (op == "rcp" && m.flags == Ftz) return run64<UpperWord<Rcp>>;
    if (op == "rsqrt") return m.flags == Ftz ? run64<UpperWord<Rsqrt>> : run64<Rsqrt>;
    return nullptr;
  }
  const bool brain = type.compare(0, 2, "bf") == 0;
  if (op == "ex2" && (m.flags == Ftz) == brain) return arithmetic16<Ex2>(type);
  return op == "tanh" && !m.flags ? arithmetic16<Tanh>(type) : nullptr;
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
  return inst.run && place(p, inst, sources);
}

}  // namespace ptx
