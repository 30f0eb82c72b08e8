// Integer instructions that compare, select, carry, pack or unpack. For integer.cpp alone.
#pragma once
#include "integer_values.h"

namespace ptx {
namespace {

// ---- Handlers with predicates or a carry ---------------------------------------------------------

enum class Compare { Eq, Ne, Lt, Le, Gt, Ge };
enum Combine : uint8_t { Alone, And, Or, Xor };

template <class T, Compare C> bool holds(T a, T b) {
  switch (C) {
    case Compare::Eq: return a == b;
    case Compare::Ne: return a != b;
    case Compare::Lt: return a < b;
    case Compare::Le: return a <= b;
    case Compare::Gt: return a > b;
    default: return a >= b;
  }
}

inline uint32_t combine(uint8_t how, uint32_t a, uint32_t b) {
  return how == And ? a & b : how == Or ? a | b : how == Xor ? a ^ b : a;
}

template <class T, Compare C>
[[gnu::noinline]] uint32_t compared(Warp& w, const Inst& i) {
  const Lane<T>* a = lanes<T>(w.reg(i.src[0]));
  const Lane<T>* b = lanes<T>(w.reg(i.src[1]));
  return ballot([=](int lane) { return holds<T, C>((T)a[lane], (T)b[lane]); });
}

// setp p|q, a, b, c: flag[0] is how c joins.
void assign_predicates(Warp& w, const Inst& i, uint32_t hit) {
  const uint32_t c = i.flag[0] == Alone ? 0 : predicate(w, i, 2);
  assign_predicate(w, i.dst[0], combine(i.flag[0], hit, c));
  assign_predicate(w, i.dst[1], combine(i.flag[0], ~hit, c));
}
template <class T, Compare C>
void setp(Warp& w, const Inst& i) { assign_predicates(w, i, compared<T, C>(w, i)); }

// set d, a, b, c: imm[0] is what true looks like.
[[gnu::noinline]] void assign_truth(Warp& w, const Inst& i, uint32_t hit) {
  const uint32_t mask = i.flag[0] == Alone ? hit : combine(i.flag[0], hit, predicate(w, i, 2));
  const uint32_t yes = (uint32_t)i.imm[0];
  assign_each<uint32_t>(w, i.dst[0], [=](int lane) { return mask >> lane & 1 ? yes : 0u; });
}
template <class T, Compare C>
void set(Warp& w, const Inst& i) { assign_truth(w, i, compared<T, C>(w, i)); }

template <class T>
void selp(Warp& w, const Inst& i) {
  const Lane<T>* a = lanes<T>(w.reg(i.src[0]));
  const Lane<T>* b = lanes<T>(w.reg(i.src[1]));
  const uint32_t mask = predicate(w, i, 2);
  assign<T>(w, i.dst[0], [=](int lane) { return mask >> lane & 1 ? a[lane] : b[lane]; });
}

void logic_predicate(Warp& w, const Inst& i) {
  const uint32_t b = i.flag[0] == Alone ? 0 : predicate(w, i, 1);
  assign_predicate(w, i.dst[0], combine(i.flag[0], predicate(w, i, 0), b));
}
void not_predicate(Warp& w, const Inst& i) { assign_predicate(w, i.dst[0], ~predicate(w, i, 0)); }

// lop3 d|p, a, b, c, table, q: each bit of the result is the table's bit number a:b:c. The table (imm[0])
// becomes a tree of selections, by c first. The predicate form combines "d is not zero" with q.
void lop3(Warp& w, const Inst& i) {
  uint32_t zero[4], flip[4];   // for a:b = k, the result at c = 0 and whether c = 1 differs
  for (int k = 0; k < 4; ++k) {
    zero[k] = i.imm[0] >> 2 * k & 1 ? ~0u : 0;
    flip[k] = zero[k] ^ (i.imm[0] >> (2 * k + 1) & 1 ? ~0u : 0);
  }
  const uint32_t* a = w.reg(i.src[0]).u32;
  const uint32_t* b = w.reg(i.src[1]).u32;
  const uint32_t* c = w.reg(i.src[2]).u32;
  auto value = [=](int lane) {
    const uint32_t x = a[lane], y = b[lane], z = c[lane];
    const uint32_t low = ((zero[0] ^ (flip[0] & z)) & ~y) | ((zero[1] ^ (flip[1] & z)) & y);
    const uint32_t high = ((zero[2] ^ (flip[2] & z)) & ~y) | ((zero[3] ^ (flip[3] & z)) & y);
    return (low & ~x) | (high & x);
  };
  if (i.flag[0] != Alone) {
    const uint32_t nonzero = ballot([=](int lane) { return value(lane) != 0; });
    assign_predicate(w, i.dst[1], combine(i.flag[0], nonzero, predicate(w, i, 3)));
  }
  assign<uint32_t>(w, i.dst[0], value);
}

// Extended precision: the last step is x + y or x - y with a carry (or borrow) in and out.
enum class Extended { Add, Sub, MadLo, MadHi };
enum Carry : uint8_t { CarryIn = 1, CarryOut = 2 };   // flag[0]

template <class T, Extended E>
void extended(Warp& w, const Inst& i) {
  using U = std::make_unsigned_t<T>;
  constexpr bool mad = E == Extended::MadLo || E == Extended::MadHi;
  const Lane<T>* a = lanes<T>(w.reg(i.src[0]));
  const Lane<T>* b = lanes<T>(w.reg(i.src[1]));
  const Lane<T>* c = mad ? lanes<T>(w.reg(i.src[2])) : b;
  const uint32_t before = i.flag[0] & CarryIn ? w.carry : 0;
  alignas(64) U result[kLanes];
  uint32_t after = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    U x = (U)a[lane];
    if (mad) x = (U)(E == Extended::MadLo ? mul_lo((T)a[lane], (T)b[lane]) : mul_hi((T)a[lane], (T)b[lane]));
    const U y = (U)c[lane], carry = before >> lane & 1;
    const U sum = E == Extended::Sub ? x - y : x + y;
    result[lane] = E == Extended::Sub ? sum - carry : sum + carry;
    const bool out = E == Extended::Sub ? x < y || sum < carry : sum < x || result[lane] < sum;
    after |= (uint32_t)out << lane;
  }
  if (i.flag[0] & CarryOut) w.carry = (w.carry & ~w.active) | (after & w.active);
  assign_each<T>(w, i.dst[0], [&](int lane) { return result[lane]; });
}

// ---- mov with braces -----------------------------------------------------------------------------

// Element k of a vector is bits [k*Bits, (k+1)*Bits) of the whole. All have different widths, so no
// destination is a source as well.
template <class Whole, class Part>
void pack(Warp& w, const Inst& i) {
  constexpr int count = sizeof(Whole) / sizeof(Part);
  const Lane<Part>* source[count];
  for (int k = 0; k < count; ++k) source[k] = lanes<Part>(w.reg(i.src[k]));
  assign<Whole>(w, i.dst[0], [=](int lane) {
    Lane<Whole> all = 0;
    for (int k = 0; k < count; ++k) all |= (Lane<Whole>)(Part)source[k][lane] << (kBits<Part> * k);
    return all;
  });
}
template <class Whole, class Part>
void unpack(Warp& w, const Inst& i) {
  const Lane<Whole>* source = lanes<Whole>(w.reg(i.src[0]));
  for (uint32_t k = 0; k < sizeof(Whole) / sizeof(Part); ++k)
    assign<Part>(w, i.dst[k], [=](int lane) { return (Part)(source[lane] >> (kBits<Part> * k)); });
}

// .b128: a register is two slots, low half first.
void move128(Warp& w, const Inst& i) {
  for (int half = 0; half < 2; ++half) {
    const uint64_t* source = w.reg(i.src[half]).u64;
    assign<uint64_t>(w, i.dst[half], [=](int lane) { return source[lane]; });
  }
}

}  // namespace
}  // namespace ptx
