// Operations on bit patterns, and comparisons. For floating.cpp alone.
#pragma once
#include "floating_arithmetic.h"

namespace ptx {
namespace {

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

}  // namespace
}  // namespace ptx
