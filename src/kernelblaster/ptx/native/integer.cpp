// Integer, bit, compare, select and move instructions.
//
// The meaning of most instructions is one plain function of a lane's values; its parameter and result
// types also say which operands the instruction takes. `Table` maps each full dotted opcode to such a
// function, so a spelling that is not in the table is refused and never approximated.
#include <initializer_list>
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

template <auto F>
struct Elementwise;
template <class Out, class... In, Out (*F)(In...)>
struct Elementwise<F> {
  static std::string signature() {
    std::string text(1, letter<Out>());
    text += ':';
    (text.push_back(letter<In>()), ...);
    return text;
  }
  static void run(Warp& w, const Inst& i) { apply(w, i, std::index_sequence_for<In...>()); }

 private:
  template <size_t... K>
  static void apply(Warp& w, const Inst& i, std::index_sequence<K...>) {
    assign_from(w, i.dst[0], static_cast<const Lane<In>*>(lanes<In>(w.reg(i.src[K])))...);
  }
  static void assign_from(Warp& w, int slot, const Lane<In>*... source) {
    assign<Out>(w, slot, [=](int lane) { return F((In)source[lane]...); });
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
inline uint32_t compared(Warp& w, const Inst& i) {
  const Lane<T>* a = lanes<T>(w.reg(i.src[0]));
  const Lane<T>* b = lanes<T>(w.reg(i.src[1]));
  return ballot([=](int lane) { return holds<T, C>((T)a[lane], (T)b[lane]); });
}

// setp p|q, a, b, c: flag[0] is how c joins.
template <class T, Compare C>
void setp(Warp& w, const Inst& i) {
  const uint32_t hit = compared<T, C>(w, i);
  const uint32_t c = i.flag[0] == Alone ? 0 : predicate(w, i, 2);
  assign_predicate(w, i.dst[0], combine(i.flag[0], hit, c));
  assign_predicate(w, i.dst[1], combine(i.flag[0], ~hit, c));
}

// set d, a, b, c: imm[0] is what true looks like.
template <class T, Compare C>
void set(Warp& w, const Inst& i) {
  const uint32_t hit = compared<T, C>(w, i);
  const uint32_t mask = i.flag[0] == Alone ? hit : combine(i.flag[0], hit, predicate(w, i, 2));
  const uint32_t yes = (uint32_t)i.imm[0];
  assign<uint32_t>(w, i.dst[0], [=](int lane) { return mask >> lane & 1 ? yes : 0u; });
}

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

template <class T, Extended E, bool In, bool Out>
void extended(Warp& w, const Inst& i) {
  using U = std::make_unsigned_t<T>;
  constexpr bool mad = E == Extended::MadLo || E == Extended::MadHi;
  const Lane<T>* a = lanes<T>(w.reg(i.src[0]));
  const Lane<T>* b = lanes<T>(w.reg(i.src[1]));
  const Lane<T>* c = mad ? lanes<T>(w.reg(i.src[2])) : b;
  const uint32_t before = In ? w.carry : 0;
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
  if (Out) w.carry = (w.carry & ~w.active) | (after & w.active);
  assign<T>(w, i.dst[0], [&](int lane) { return result[lane]; });
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

// ---- The table -----------------------------------------------------------------------------------

// Operands, destinations before the colon: w up to 32 bits, d 64, p predicate, P a predicate that may be
// absent, i an immediate for imm[0].
struct Entry {
  Handler run;
  std::string operands;
  uint8_t flag = 0;
  int64_t imm = 0;
  Class klass = Class::Integer;
};

template <class T>
std::string type_name() { return (std::is_signed_v<T> ? "s" : "u") + std::to_string(kBits<T>); }
template <class T>
std::string bits_name() { return "b" + std::to_string(kBits<T>); }

template <class... Ts, class Body>
void for_types(Body body) { (body(Ts{}), ...); }

struct Combining { const char* name; uint8_t how; };
constexpr Combining kCombining[] = {{"", Alone}, {".and", And}, {".or", Or}, {".xor", Xor}};

struct Table {
  std::unordered_map<std::string, Entry> entries;

  void put(const std::string& name, Entry entry) { entries.emplace(name, std::move(entry)); }
  template <auto F>
  void op(const std::string& name, Class klass = Class::Integer) {
    put(name, {Elementwise<F>::run, Elementwise<F>::signature(), 0, 0, klass});
  }

  Table() {
    arithmetic();
    carrying();
    bits();
    logic();
    moves();
    comparisons();
  }

  void arithmetic() {
    for_types<int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t>([this](auto zero) {
      using T = decltype(zero);
      const std::string t = "." + type_name<T>();
      op<add<T>>("add" + t);
      op<sub<T>>("sub" + t);
      op<mul_lo<T>>("mul.lo" + t);
      op<mul_hi<T>>("mul.hi" + t);
      op<mad_lo<T>>("mad.lo" + t);
      op<mad_hi<T>>("mad.hi" + t);
      op<sad<T>>("sad" + t);
      op<div_of<T>>("div" + t);
      op<rem_of<T>>("rem" + t);
      op<min_of<T>>("min" + t);
      op<max_of<T>>("max" + t);
      if constexpr (std::is_signed_v<T>) {
        op<neg<T>>("neg" + t);
        op<abs_of<T>>("abs" + t);
      }
      if constexpr (sizeof(T) <= 4) {
        op<mul_wide<T>>("mul.wide" + t);
        op<mad_wide<T>>("mad.wide" + t);
      }
      if constexpr (sizeof(T) == 4) {
        op<mul24_lo<T>>("mul24.lo" + t);
        op<mul24_hi<T>>("mul24.hi" + t);
        op<mad24_lo<T>>("mad24.lo" + t);
        op<mad24_hi<T>>("mad24.hi" + t);
      }
    });
    op<add_sat>("add.sat.s32");
    op<sub_sat>("sub.sat.s32");
    op<mad_hi_sat>("mad.hi.sat.s32");
    op<mad24_hi_sat>("mad24.hi.sat.s32");
    // The manual writes min.relu.s32, CUDA's headers min.s32.relu; ptxas takes both.
    for (const char* t : {".relu.s32", ".s32.relu"}) {
      op<min_relu>(std::string("min") + t);
      op<max_relu>(std::string("max") + t);
    }
    for (const char* t : {".relu.s16x2", ".s16x2.relu"}) {
      op<halves<int16_t, min_relu16>>(std::string("min") + t);
      op<halves<int16_t, max_relu16>>(std::string("max") + t);
    }
    for_types<int16_t, uint16_t>([this](auto zero) {
      using T = decltype(zero);
      const std::string t = "." + type_name<T>() + "x2";
      op<halves<T, add<T>>>("add" + t);
      op<halves<T, min_of<T>>>("min" + t);
      op<halves<T, max_of<T>>>("max" + t);
    });
    op<vabsdiff<uint8_t, false>>("vabsdiff4.u32.u32.u32");
    op<vabsdiff<uint8_t, true>>("vabsdiff4.u32.u32.u32.add");
    op<vabsdiff<uint16_t, false>>("vabsdiff2.u32.u32.u32");
    op<vabsdiff<uint16_t, true>>("vabsdiff2.u32.u32.u32.add");
    dot_products<int8_t, int8_t>("s32", "s32");
    dot_products<int8_t, uint8_t>("s32", "u32");
    dot_products<uint8_t, int8_t>("u32", "s32");
    dot_products<uint8_t, uint8_t>("u32", "u32");
  }

  template <class A, class B>
  void dot_products(const std::string& a, const std::string& b) {
    using A16 = std::conditional_t<std::is_signed_v<A>, int16_t, uint16_t>;
    const std::string types = "." + a + "." + b;
    op<dp4a<A, B>>("dp4a" + types);
    op<dp2a<A16, B, 0>>("dp2a.lo" + types);
    op<dp2a<A16, B, 16>>("dp2a.hi" + types);
  }

  template <class T, Extended E>
  void carry_forms(const std::string& name, const std::string& half) {
    const std::string t = "." + type_name<T>(), d(1, letter<T>());
    const bool mad = E == Extended::MadLo || E == Extended::MadHi;
    const std::string operands = d + ":" + d + d + (mad ? d : "");
    put(name + half + ".cc" + t, {extended<T, E, false, true>, operands});
    put(name + "c" + half + t, {extended<T, E, true, false>, operands});
    put(name + "c" + half + ".cc" + t, {extended<T, E, true, true>, operands});
  }
  void carrying() {
    for_types<int32_t, uint32_t, int64_t, uint64_t>([this](auto zero) {
      using T = decltype(zero);
      carry_forms<T, Extended::Add>("add", "");
      carry_forms<T, Extended::Sub>("sub", "");
      carry_forms<T, Extended::MadLo>("mad", ".lo");
      carry_forms<T, Extended::MadHi>("mad", ".hi");
    });
  }

  void bits() {
    op<popc32>("popc.b32");
    op<popc64>("popc.b64");
    op<clz32>("clz.b32");
    op<clz64>("clz.b64");
    op<brev32>("brev.b32");
    op<brev64>("brev.b64");
    op<fns>("fns.b32");
    for_types<int32_t, uint32_t, int64_t, uint64_t>([this](auto zero) {
      using T = decltype(zero);
      const std::string t = "." + type_name<T>();
      op<bfind<T, false>>("bfind" + t);
      op<bfind<T, true>>("bfind.shiftamt" + t);
      op<bfe<T>>("bfe" + t);
      if constexpr (!std::is_signed_v<T>) op<bfi<T>>("bfi." + bits_name<T>());
      if constexpr (sizeof(T) == 4) {
        op<szext<T, true>>("szext.clamp" + t);
        op<szext<T, false>>("szext.wrap" + t);
      }
    });
    op<bmsk<true>>("bmsk.clamp.b32");
    op<bmsk<false>>("bmsk.wrap.b32");
    op<prmt>("prmt.b32");
    op<prmt_mode<0x6543543243213210>>("prmt.b32.f4e");
    op<prmt_mode<0x0123701267015670>>("prmt.b32.b4e");
    op<prmt_mode<0x3333222211110000>>("prmt.b32.rc8");
    op<prmt_mode<0x3333322232113210>>("prmt.b32.ecl");
    op<prmt_mode<0x3210221011100000>>("prmt.b32.ecr");
    op<prmt_mode<0x3232101032321010>>("prmt.b32.rc16");
    op<shf<true, true>>("shf.l.clamp.b32");
    op<shf<true, false>>("shf.l.wrap.b32");
    op<shf<false, true>>("shf.r.clamp.b32");
    op<shf<false, false>>("shf.r.wrap.b32");
  }

  void logic() {
    for_types<uint16_t, uint32_t, uint64_t>([this](auto zero) {
      using T = decltype(zero);
      const std::string t = "." + bits_name<T>();
      op<and_of<T>>("and" + t);
      op<or_of<T>>("or" + t);
      op<xor_of<T>>("xor" + t);
      op<not_of<T>>("not" + t);
      op<cnot<T>>("cnot" + t);
      op<shl<T>>("shl" + t);
      op<shr<T>>("shr" + t);
      op<shr<T>>("shr." + type_name<T>());
      op<shr<std::make_signed_t<T>>>("shr." + type_name<std::make_signed_t<T>>());
    });
    put("and.pred", {logic_predicate, "p:pp", And});
    put("or.pred", {logic_predicate, "p:pp", Or});
    put("xor.pred", {logic_predicate, "p:pp", Xor});
    put("not.pred", {not_predicate, "p:p"});
    put("mov.pred", {logic_predicate, "p:p", Alone, 0, Class::Move});
    put("lop3.b32", {lop3, "w:wwwi"});
    put("lop3.and.b32", {lop3, "wp:wwwip", And});
    put("lop3.or.b32", {lop3, "wp:wwwip", Or});
  }

  template <class T>
  void choices(const std::string& t) {
    const std::string d(1, letter<T>());
    op<move<T>>("mov." + t, Class::Move);
    put("selp." + t, {selp<T>, d + ":" + d + d + "p"});
    op<slct<T>>("slct." + t + ".s32");
    op<slct_float<T, false>>("slct." + t + ".f32");
    op<slct_float<T, true>>("slct.ftz." + t + ".f32");
  }
  void moves() {
    for_types<uint16_t, uint32_t, uint64_t>([this](auto zero) {
      using T = decltype(zero);
      const std::string bits = std::to_string(kBits<T>);
      for (const char* kind : {"b", "u", "s"}) choices<T>(kind + bits);
      if constexpr (sizeof(T) > 2) choices<T>("f" + bits);
    });
  }

  template <class T, Compare C>
  void comparison(const std::string& compare, const std::string& type) {
    const std::string sources(2, letter<T>());
    for (const Combining& c : kCombining) {
      const std::string joined = compare + c.name, operands = ":" + sources + (c.how == Alone ? "" : "p");
      put("setp." + joined + "." + type, {setp<T, C>, "pP" + operands, c.how});
      for (const char* result : {"u32", "s32"})
        put("set." + joined + "." + result + "." + type, {set<T, C>, "w" + operands, c.how, 0xffffffff});
      put("set." + joined + ".f32." + type, {set<T, C>, "w" + operands, c.how, 0x3f800000});
    }
  }
  void comparisons() {
    for_types<int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t>([this](auto zero) {
      using T = decltype(zero);
      const std::string t = type_name<T>();
      comparison<T, Compare::Eq>("eq", t);
      comparison<T, Compare::Ne>("ne", t);
      comparison<T, Compare::Lt>("lt", t);
      comparison<T, Compare::Le>("le", t);
      comparison<T, Compare::Gt>("gt", t);
      comparison<T, Compare::Ge>("ge", t);
      if constexpr (!std::is_signed_v<T>) {
        comparison<T, Compare::Lt>("lo", t);
        comparison<T, Compare::Le>("ls", t);
        comparison<T, Compare::Gt>("hi", t);
        comparison<T, Compare::Ge>("hs", t);
        comparison<T, Compare::Eq>("eq", bits_name<T>());
        comparison<T, Compare::Ne>("ne", bits_name<T>());
      }
    });
  }
};

// ---- Binding -------------------------------------------------------------------------------------

// The slot of a value of `bits` (up to 32, or 64), or -1 if the operand is no such value. A register of
// the other lane width is refused: its lanes lie elsewhere.
int value_slot(const Operand& o, int bits) {
  const bool value = o.kind == Operand::Register || o.kind == Operand::Immediate || o.kind == Operand::Symbol;
  if (!value || o.predicate || o.negated) return -1;
  if (o.kind == Operand::Register && o.width != 0 && (o.width > 32 ? o.width : 32) != (bits > 32 ? bits : 32))
    return -1;
  return bits == 64 ? source64(o) : source32(o);
}

bool bind_value(const Operand& o, int bits, int& slot) { return (slot = value_slot(o, bits)) >= 0; }

bool bind_target(const Operand& o, int bits, int& slot) {
  slot = -1;
  return o.kind == Operand::Sink || (o.kind == Operand::Register && bind_value(o, bits, slot));
}

bool bind_predicate(const Operand& o, Inst& inst, int k) {
  bool negated = o.negated;
  if (o.kind == Operand::Immediate) negated ^= o.bits != 0;
  else if (o.kind == Operand::Register && o.predicate && o.slot >= 0) inst.src[k] = o.slot;
  else return false;
  inst.imm[k] = negated ? 0xffffffff : 0;
  return true;
}

bool bind_predicate_target(const Operand& o, int& slot) {
  slot = -1;
  if (o.kind == Operand::Sink) return true;
  if (o.kind != Operand::Register || !o.predicate || o.negated) return false;
  return (slot = o.slot) >= 0;
}

bool bind_operands(const Parsed& p, const Entry& e, Inst& inst) {
  const size_t colon = e.operands.find(':');
  std::string letters = e.operands;
  letters.erase(colon, 1);
  size_t destinations = colon;
  const size_t optional = letters.find('P');
  if (optional != std::string::npos && p.operands.size() + 1 == letters.size()) {
    letters.erase(optional, 1);
    --destinations;
  }
  if (p.operands.size() != letters.size()) return false;
  int source = 0;
  for (size_t k = 0; k < letters.size(); ++k) {
    const Operand& o = p.operands[k];
    const bool wide = letters[k] == 'd', mask = letters[k] == 'p' || letters[k] == 'P';
    if (k < destinations) {
      int& slot = inst.dst[k];
      if (!(mask ? bind_predicate_target(o, slot) : bind_target(o, wide ? 64 : 32, slot))) return false;
    } else if (letters[k] == 'i') {
      if (o.kind != Operand::Immediate || o.bits > 255) return false;
      inst.imm[0] = (int64_t)o.bits;
    } else {
      if (!(mask ? bind_predicate(o, inst, source) : bind_value(o, wide ? 64 : 32, inst.src[source])))
        return false;
      ++source;
    }
  }
  return true;
}

template <class Whole, class Part>
bool bind_braces(const Operand& whole, const std::vector<Operand>& parts, bool packing, Inst& inst) {
  if (parts.size() * sizeof(Part) != sizeof(Whole)) return false;
  inst.run = packing ? pack<Whole, Part> : unpack<Whole, Part>;
  if (!(packing ? bind_target(whole, kBits<Whole>, inst.dst[0]) : bind_value(whole, kBits<Whole>, inst.src[0])))
    return false;
  for (size_t k = 0; k < parts.size(); ++k) {
    // A part of a width that is not this form's belongs to another one: {b16, b16} is no b64.
    if (parts[k].kind == Operand::Register && parts[k].width != 0 && parts[k].width != (int)kBits<Part>) return false;
    if (!(packing ? bind_value(parts[k], kBits<Part>, inst.src[k]) : bind_target(parts[k], kBits<Part>, inst.dst[k])))
      return false;
  }
  return true;
}

bool bind_half128(const Operand& o, int half, bool destination, int& slot) {
  if (o.kind == Operand::Register && o.width == 128 && o.slot >= 0) {
    slot = o.slot + half;
    return true;
  }
  if (o.kind != Operand::Vector || o.parts.size() != 2) return false;
  return destination ? bind_target(o.parts[half], 64, slot) : bind_value(o.parts[half], 64, slot);
}

// mov.b64 {lo, hi}, x and mov.b64 x, {lo, hi}, and their like; mov.b128 with registers or 64-bit halves.
bool bind_vector_move(const Parsed& p, Inst& inst) {
  if (p.parts.size() != 2 || p.operands.size() != 2) return false;
  const Operand &to = p.operands[0], &from = p.operands[1];
  if (p.type() == "b128") {
    inst.run = move128;
    for (int half = 0; half < 2; ++half)
      if (!bind_half128(to, half, true, inst.dst[half]) || !bind_half128(from, half, false, inst.src[half]))
        return false;
    return true;
  }
  const bool packing = from.kind == Operand::Vector;
  const Operand& whole = packing ? to : from;
  const std::vector<Operand>& parts = packing ? from.parts : to.parts;
  if (p.type() == "b64")
    return parts.size() == 2 ? bind_braces<uint64_t, uint32_t>(whole, parts, packing, inst)
                             : bind_braces<uint64_t, uint16_t>(whole, parts, packing, inst);
  if (p.type() == "b32")
    return parts.size() == 2 ? bind_braces<uint32_t, uint16_t>(whole, parts, packing, inst)
                             : bind_braces<uint32_t, uint8_t>(whole, parts, packing, inst);
  if (p.type() == "b16") return bind_braces<uint16_t, uint8_t>(whole, parts, packing, inst);
  return false;
}

}  // namespace

bool bind_integer(const Parsed& p, Inst& inst) {
  static const Table table;
  bool braces = p.type() == "b128";
  for (const Operand& o : p.operands) braces |= o.kind == Operand::Vector;
  if (braces) {
    if (p.op() != "mov") return false;
    inst.klass = Class::Move;
    return bind_vector_move(p, inst);
  }
  const auto found = table.entries.find(p.name());
  if (found == table.entries.end()) return false;
  const Entry& e = found->second;
  inst.run = e.run;
  inst.klass = e.klass;
  inst.flag[0] = e.flag;
  inst.imm[0] = e.imm;
  return bind_operands(p, e, inst);
}

}  // namespace ptx
