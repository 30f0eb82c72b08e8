// Integer instructions that are one plain function of a lane's values. For integer.cpp alone.
#pragma once
#include <type_traits>
#include <utility>

#include "machine.h"

namespace ptx {
namespace {

// ---- Lanes ---------------------------------------------------------------------------------------

// 8-, 16- and 32-bit values live in 32-bit lanes; reading one as T drops the unspecified upper bits.
template <class T>
using Lane = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <class T>
Lane<T>* lanes(Reg& r) {
  if constexpr (sizeof(T) == 8) return r.u64;
  else return r.u32;
}

// Sources may be the destination, but a lane only ever reads itself: hence ivdep. Under a partial mask
// all lanes are computed and then blended, so `f` has to be defined for any bits.
template <class Out, class F>
inline void assign(Warp& w, int slot, F f) {
  if (slot < 0) return;
  Lane<Out>* d = lanes<Out>(w.reg(slot));
  if (w.active == kAllLanes) {
#pragma GCC ivdep
    for (int lane = 0; lane < kLanes; ++lane) d[lane] = (Lane<Out>)f(lane);
    return;
  }
  alignas(64) Lane<Out> all[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) all[lane] = (Lane<Out>)f(lane);
  const uint32_t active = w.active;
  for (int lane = 0; lane < kLanes; ++lane) d[lane] = active >> lane & 1 ? all[lane] : d[lane];
}

// The same one lane after the other: slower to run and much faster to compile.
template <class Out, class F>
inline void assign_each(Warp& w, int slot, F f) {
  if (slot < 0) return;
  Lane<Out>* d = lanes<Out>(w.reg(slot));
  each_lane(w.active, [=](int lane) { d[lane] = (Lane<Out>)f(lane); });
}

// The mask of lanes for which f holds.
template <class F>
inline uint32_t ballot(F f) {
  uint32_t mask = 0;
  for (int lane = 0; lane < kLanes; ++lane) mask |= (uint32_t)f(lane) << lane;
  return mask;
}

inline void assign_predicate(Warp& w, int slot, uint32_t mask) {
  if (slot < 0) return;
  Reg& d = w.reg(slot);
  d.mask = (d.mask & ~w.active) | (mask & w.active);
}

// Source k as a predicate. imm[k] holds its negation, and a constant is the negation of nothing.
inline uint32_t predicate(Warp& w, const Inst& i, int k) {
  return (i.src[k] < 0 ? 0 : w.reg(i.src[k]).mask) ^ (uint32_t)i.imm[k];
}

// ---- Handlers made from a function of one lane ---------------------------------------------------

template <class T>
constexpr char letter() { return sizeof(T) == 8 ? 'd' : 'w'; }

// `Usual`: what compilers write often is vectorized, the rest runs lane by lane.
template <auto F, bool Usual = true>
struct Elementwise;
template <class Out, class... In, Out (*F)(In...), bool Usual>
struct Elementwise<F, Usual> {
  static constexpr char operands[] = {letter<Out>(), ':', letter<In>()..., 0};   // as in Entry of integer.cpp
  static void run(Warp& w, const Inst& i) { apply(w, i, std::index_sequence_for<In...>()); }

 private:
  template <size_t... K>
  static void apply(Warp& w, const Inst& i, std::index_sequence<K...>) {
    assign_from(w, i.dst[0], static_cast<const Lane<In>*>(lanes<In>(w.reg(i.src[K])))...);
  }
  static void assign_from(Warp& w, int slot, const Lane<In>*... source) {
    const auto value = [=](int lane) { return F((In)source[lane]...); };
    if constexpr (Usual) assign<Out>(w, slot, value);
    else assign_each<Out>(w, slot, value);
  }
};

// ---- Arithmetic ----------------------------------------------------------------------------------

// Work is done in 32 or 64 unsigned bits: it wraps, and 16-bit operands are not promoted to int.
template <class T>
using Work = Lane<T>;
template <class T>
using Double = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                       std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;

template <class T> T add(T a, T b) { return (T)((Work<T>)a + (Work<T>)b); }
template <class T> T sub(T a, T b) { return (T)((Work<T>)a - (Work<T>)b); }
template <class T> T mul_lo(T a, T b) { return (T)((Work<T>)a * (Work<T>)b); }
template <class T> Double<T> mul_wide(T a, T b) {
  return (Double<T>)((std::make_unsigned_t<Double<T>>)a * (std::make_unsigned_t<Double<T>>)b);
}
template <class T> T mul_hi(T a, T b) {
  if constexpr (sizeof(T) == 8) return (T)((Double<T>)a * (Double<T>)b >> 64);
  else return (T)(mul_wide(a, b) >> (8 * sizeof(T)));
}
template <class T> T mad_lo(T a, T b, T c) { return add(mul_lo(a, b), c); }
template <class T> T mad_hi(T a, T b, T c) { return add(mul_hi(a, b), c); }
template <class T> Double<T> mad_wide(T a, T b, Double<T> c) { return add(mul_wide(a, b), c); }

int32_t saturate(int64_t x) {
  return (int32_t)(x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : x);
}
int32_t add_sat(int32_t a, int32_t b) { return saturate((int64_t)a + b); }
int32_t sub_sat(int32_t a, int32_t b) { return saturate((int64_t)a - b); }
int32_t mad_hi_sat(int32_t a, int32_t b, int32_t c) { return saturate((int64_t)mul_hi(a, b) + c); }

// The 48-bit product of the low 24 bits.
template <class T> int64_t product24(T a, T b) {
  return (int64_t)((T)((uint32_t)a << 8) >> 8) * (int64_t)((T)((uint32_t)b << 8) >> 8);
}
template <class T> T mul24_lo(T a, T b) { return (T)product24(a, b); }
template <class T> T mul24_hi(T a, T b) { return (T)(product24(a, b) >> 16); }
template <class T> T mad24_lo(T a, T b, T c) { return add(mul24_lo(a, b), c); }
template <class T> T mad24_hi(T a, T b, T c) { return add(mul24_hi(a, b), c); }
int32_t mad24_hi_sat(int32_t a, int32_t b, int32_t c) { return saturate((int64_t)mul24_hi(a, b) + c); }

template <class T> T sad(T a, T b, T c) { return add(c, a < b ? sub(b, a) : sub(a, b)); }
template <class T> T neg(T a) { return sub((T)0, a); }
template <class T> T abs_of(T a) { return a < 0 ? neg(a) : a; }
template <class T> T min_of(T a, T b) { return a < b ? a : b; }
template <class T> T max_of(T a, T b) { return a > b ? a : b; }
int32_t min_relu(int32_t a, int32_t b) { return max_of(min_of(a, b), 0); }
int32_t max_relu(int32_t a, int32_t b) { return max_of(max_of(a, b), 0); }

// Division by zero gives all ones, and the remainder too, as the hardware's sequence leaves them. Up to
// 32 bits the quotient goes through double, which vectorizes: it is exact, since a quotient that is not
// whole is at least 2^-32 (relative to itself) away from the next integer.
template <class T> T div_of(T a, T b) {
  if constexpr (sizeof(T) == 8) {
    if (b == 0) return (T)-1;
    if (std::is_signed_v<T> && b == (T)-1) return neg(a);
    return a / b;
  } else {
    const T quotient = (T)(int64_t)((double)a / (double)(b == 0 ? (T)1 : b));
    return b == 0 ? (T)-1 : quotient;
  }
}
template <class T> T rem_of(T a, T b) {
  const T rest = sub(a, mul_lo(div_of(a, b), b));
  return b == 0 ? (T)-1 : rest;
}

// Two 16-bit halves by themselves.
template <class T, T (*F)(T, T)> uint32_t halves(uint32_t a, uint32_t b) {
  return (uint16_t)F((T)a, (T)b) | (uint32_t)(uint16_t)F((T)(a >> 16), (T)(b >> 16)) << 16;
}
int16_t min_relu16(int16_t a, int16_t b) { return (int16_t)min_relu(a, b); }
int16_t max_relu16(int16_t a, int16_t b) { return (int16_t)max_relu(a, b); }

template <class A, class B> uint32_t dp4a(uint32_t a, uint32_t b, uint32_t c) {
  for (int k = 0; k < 32; k += 8) c += (uint32_t)((int32_t)(A)(a >> k) * (int32_t)(B)(b >> k));
  return c;
}
template <class A, class B, int Shift> uint32_t dp2a(uint32_t a, uint32_t b, uint32_t c) {
  for (int k = 0; k < 2; ++k)
    c += (uint32_t)((int32_t)(A)(a >> 16 * k) * (int32_t)(B)(b >> (Shift + 8 * k)));
  return c;
}

// vabsdiff2 and vabsdiff4 of unsigned lanes: the differences themselves, or (Sum) c plus all of them. With
// no lane mask written, the plain form keeps nothing of c.
template <class T, bool Sum> uint32_t vabsdiff(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t apart = 0, sum = c;
  for (uint32_t k = 0; k < 32; k += 8 * sizeof(T)) {
    const uint32_t x = (T)(a >> k), y = (T)(b >> k), difference = x < y ? y - x : x - y;
    apart |= difference << k;
    sum += difference;
  }
  return Sum ? sum : apart;
}

// ---- Bits ----------------------------------------------------------------------------------------

template <class T> constexpr uint32_t kBits = 8 * sizeof(T);

uint32_t popc32(uint32_t a) { return (uint32_t)__builtin_popcount(a); }
uint32_t popc64(uint64_t a) { return (uint32_t)__builtin_popcountll(a); }
uint32_t clz32(uint32_t a) { return a ? (uint32_t)__builtin_clz(a) : 32; }
uint32_t clz64(uint64_t a) { return a ? (uint32_t)__builtin_clzll(a) : 64; }

// The highest bit that differs from the sign, counted from below or (shiftamt) from the top.
template <class T, bool Shift> uint32_t bfind(T a) {
  using U = std::make_unsigned_t<T>;
  const U bits = a < 0 ? (U)~a : (U)a;
  const uint32_t zeros = sizeof(T) == 8 ? clz64(bits) : clz32((uint32_t)bits);
  if (bits == 0) return 0xffffffffu;
  return Shift ? zeros : kBits<T> - 1 - zeros;
}

uint32_t brev32(uint32_t a) {
  a = (a >> 1 & 0x55555555u) | (a & 0x55555555u) << 1;
  a = (a >> 2 & 0x33333333u) | (a & 0x33333333u) << 2;
  a = (a >> 4 & 0x0f0f0f0fu) | (a & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(a);
}
uint64_t brev64(uint64_t a) { return (uint64_t)brev32((uint32_t)a) << 32 | brev32((uint32_t)(a >> 32)); }

// The n low bits set, 0 <= n <= width.
template <class T> T low_mask(uint32_t n) { return n >= kBits<T> ? (T)~(T)0 : (T)(((T)1 << n) - 1); }

template <class T> T bfe(T a, uint32_t b, uint32_t c) {
  using U = std::make_unsigned_t<T>;
  const uint32_t pos = b & 0xff, len = c & 0xff, top = kBits<T> - 1;
  const uint32_t last = pos + len - 1 < top ? pos + len - 1 : top;
  const bool sign = std::is_signed_v<T> && len != 0 && ((U)a >> last & 1);
  const U field = pos > top ? 0 : (U)a >> (pos & top);
  const uint32_t room = pos > top ? 0 : kBits<T> - pos;
  const U mask = low_mask<U>(len < room ? len : room);
  return (T)((field & mask) | (sign ? (U)~mask : 0));
}
template <class T> T bfi(T a, T b, uint32_t c, uint32_t d) {
  const uint32_t pos = c & 0xff, len = d & 0xff, top = kBits<T> - 1;
  const T mask = pos > top ? 0 : (T)(low_mask<T>(len) << (pos & top));
  return (T)((b & ~mask) | (a << (pos & top) & mask));
}

template <bool Clamp> uint32_t bmsk(uint32_t a, uint32_t b) {
  const uint32_t start = a & 31, end = start + (b & 31);
  const uint32_t from = Clamp && a >= 32 ? 0 : ~0u << start;
  const uint32_t beyond = end >= 32 || (Clamp && (a >= 32 || b >= 32)) ? 0 : ~0u << (end & 31);
  return from & ~beyond;
}
template <class T, bool Clamp> T szext(T a, uint32_t b) {
  const uint32_t bits = b & 31;
  const bool whole = Clamp && b >= 32;
  const uint32_t above = whole ? 0 : ~0u << bits;
  const bool sign = std::is_signed_v<T> && bits != 0 && !whole && ((uint32_t)a >> ((bits - 1) & 31) & 1);
  return (T)(((uint32_t)a & ~above) | (sign ? above : 0));
}

uint32_t fns(uint32_t mask, uint32_t base, int32_t offset) {
  if (base > 31) return 0xffffffffu;
  if (offset == 0) return mask >> base & 1 ? base : 0xffffffffu;
  const int step = offset > 0 ? 1 : -1;
  uint32_t count = (offset > 0 ? (uint32_t)offset : 0u - (uint32_t)offset) - 1;
  for (int pos = (int)base; pos >= 0 && pos < 32; pos += step)
    if ((mask >> pos & 1) && count-- == 0) return (uint32_t)pos;
  return 0xffffffffu;
}

// Four bytes of b:a, chosen by the nibbles of c; a nibble's top bit asks for the byte's sign only.
uint32_t prmt(uint32_t a, uint32_t b, uint32_t c) {
  const uint64_t bytes = (uint64_t)b << 32 | a;
  uint32_t result = 0;
  for (int k = 0; k < 4; ++k) {
    const uint32_t choice = c >> 4 * k;
    const uint32_t byte = (uint32_t)(bytes >> 8 * (choice & 7)) & 0xff;
    const uint32_t sign = byte >> 7 ? 0xff : 0;
    result |= (choice & 8 ? sign : byte) << 8 * k;
  }
  return result;
}
// The named modes: c's low two bits name one of four fixed choices.
template <uint64_t Choices> uint32_t prmt_mode(uint32_t a, uint32_t b, uint32_t c) {
  return prmt(a, b, (uint32_t)(Choices >> 16 * (c & 3)) & 0xffff);
}

template <class T> T shl(T a, uint32_t n) {
  return n >= kBits<T> ? (T)0 : (T)((Work<T>)a << (n & (kBits<T> - 1)));
}
template <class T> T shr(T a, uint32_t n) {
  const uint32_t top = kBits<T> - 1;
  if (std::is_signed_v<T>) return (T)(a >> (n > top ? top : n));
  return n > top ? (T)0 : (T)(a >> (n & top));
}
template <bool Left, bool Clamp> uint32_t shf(uint32_t a, uint32_t b, uint32_t c) {
  const uint64_t both = (uint64_t)b << 32 | a;
  const uint32_t n = Clamp ? (c < 32 ? c : 32) : c & 31;
  return Left ? (uint32_t)(both << n >> 32) : (uint32_t)(both >> n);
}

template <class T> T and_of(T a, T b) { return (T)(a & b); }
template <class T> T or_of(T a, T b) { return (T)(a | b); }
template <class T> T xor_of(T a, T b) { return (T)(a ^ b); }
template <class T> T not_of(T a) { return (T)~a; }
template <class T> T cnot(T a) { return a == 0; }
template <class T> T move(T a) { return a; }

template <class T> T slct(T a, T b, int32_t c) { return c >= 0 ? a : b; }
template <class T, bool Flush> T slct_float(T a, T b, uint32_t c) {
  if (Flush && (c & 0x7f800000u) == 0) c = 0;
  const bool nan = (c & 0x7fffffffu) > 0x7f800000u;
  return !nan && (c <= 0x80000000u) ? a : b;   // -0 counts as zero
}

}  // namespace
}  // namespace ptx
