// Atomics.
#include "overwritten.h"
#include "qualifiers.h"

namespace ptx {
namespace {

// A block runs on one host thread, so only global memory needs the host's atomics.
template <typename T, T (*operation)(T old, T b, T c, bool global)>
void atomic(Warp& w, const Inst& i) {
  using D = typename std::conditional<sizeof(T) == 8, uint64_t, uint32_t>::type;
  w.counts.atomic_requests += 1;
  reach(w, i, Effect::Atomic, [](Warp& w, const Inst& i, const Access& a) {
    each_lane(a.lanes, [&](int l) {
      int n = i.flag[4];
      T old[4], b[4], c = i.src[4] < 0 ? T(0) : (T)lanes_of<D>(w.reg(i.src[4]))[l];
      for (int k = 0; k < n; ++k) b[k] = (T)lanes_of<D>(w.reg(i.src[k]))[l];
      for (int k = 0; k < n; ++k) {
        T* p = (T*)a.at[l] + k;
        if (a.space == Space::Shared) {
          old[k] = read<T>((uint64_t)p);
          write<T>((uint64_t)p, operation(old[k], b[k], c, false));
          continue;
        }
        old[k] = __atomic_load_n(p, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(p, &old[k], operation(old[k], b[k], c, true), true, __ATOMIC_SEQ_CST,
                                            __ATOMIC_RELAXED)) {}
      }
      if (remembers(w)) {
        bool changed = false;
        for (int k = 0; k < n; ++k) changed |= operation(old[k], b[k], c, a.space != Space::Shared) != old[k];
        if (changed) overwrite(w, a, l, a.at[l], old, n * sizeof(T));
        else recall(w, a, l, a.at[l], old, n * sizeof(T));   // it is but a read
      }
      for (int k = 0; k < n; ++k)
        if (i.dst[k] >= 0) lanes_of<D>(w.reg(i.dst[k]))[l] = old[k];
    });
  });
}

template <typename T> T exchange(T, T b, T, bool) { return b; }
template <typename T> T compare_and_swap(T old, T b, T c, bool) { return old == b ? c : old; }
template <typename T> T bit_and(T old, T b, T, bool) { return old & b; }
template <typename T> T bit_or(T old, T b, T, bool) { return old | b; }
template <typename T> T bit_xor(T old, T b, T, bool) { return old ^ b; }
template <typename T> T plus(T old, T b, T, bool) { return (T)(old + b); }
template <typename T> T least(T old, T b, T, bool) { return std::min(old, b); }
template <typename T> T greatest(T old, T b, T, bool) { return std::max(old, b); }
uint32_t increment(uint32_t old, uint32_t b, uint32_t, bool) { return old >= b ? 0 : old + 1; }
uint32_t decrement(uint32_t old, uint32_t b, uint32_t, bool) { return old == 0 || old > b ? b : old - 1; }

template <typename To, typename From>
To as(From from) {
  static_assert(sizeof(To) == sizeof(From), "same bits");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

uint32_t flushed(uint32_t bits) { return bits & 0x7f800000 ? bits : bits & 0x80000000; }

// In global memory, hardware's atomic addition of floats flushes subnormals; in shared memory it does not.
uint32_t plus_f32(uint32_t old, uint32_t b, uint32_t, bool global) {
  if (global) old = flushed(old), b = flushed(b);
  float sum = as<float>(old) + as<float>(b);
  uint32_t bits = sum != sum ? 0x7fffffff : as<uint32_t>(sum);
  return global ? flushed(bits) : bits;
}
uint64_t plus_f64(uint64_t old, uint64_t b, uint64_t, bool) { return as<uint64_t>(as<double>(old) + as<double>(b)); }

float widen_f16(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;
  if (exponent == 31) return as<float>(sign | 0x7f800000 | fraction << 13);
  if (exponent) return as<float>(sign | (exponent + 112) << 23 | fraction << 13);
  float small = (float)fraction * 0x1p-24f;
  return sign ? -small : small;
}
uint16_t narrow_f16(float f) {
  uint32_t bits = as<uint32_t>(f), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return 0x7fff;
  if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00);   // 65520 and above
  if (magnitude < 0x38800000) {      // subnormal: adding 0.5 leaves multiples of 2^-24 in the low bits, rounded
    return (uint16_t)(sign | (as<uint32_t>(as<float>(magnitude) + 0.5f) - 0x3f000000));
  }
  uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000;
  return (uint16_t)(sign | rounded >> 13);
}
float widen_bf16(uint16_t h) { return as<float>((uint32_t)h << 16); }
uint16_t narrow_bf16(float f) {
  uint32_t bits = as<uint32_t>(f);
  return f != f ? 0x7fff : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
// A float has enough digits that rounding the sum twice changes nothing (24 >= 2 * 11 + 2).
uint16_t plus_f16(uint16_t old, uint16_t b, uint16_t, bool) { return narrow_f16(widen_f16(old) + widen_f16(b)); }
uint16_t plus_bf16(uint16_t old, uint16_t b, uint16_t, bool) { return narrow_bf16(widen_bf16(old) + widen_bf16(b)); }
template <uint16_t (*add)(uint16_t, uint16_t, uint16_t, bool)>
uint32_t plus_pair(uint32_t old, uint32_t b, uint32_t, bool) {
  return (uint32_t)add((uint16_t)old, (uint16_t)b, 0, true) |
         (uint32_t)add((uint16_t)(old >> 16), (uint16_t)(b >> 16), 0, true) << 16;
}

Handler atomic_handler(const std::string& op, const std::string& type) {
  bool b32 = type == "b32", b64 = type == "b64", u32 = type == "u32", u64 = type == "u64";
  bool s32 = type == "s32", s64 = type == "s64";
  if (op == "add") {
    if (u32 || s32) return atomic<uint32_t, plus<uint32_t>>;
    if (u64 || s64) return atomic<uint64_t, plus<uint64_t>>;
    if (type == "f32") return atomic<uint32_t, plus_f32>;
    if (type == "f64") return atomic<uint64_t, plus_f64>;
    if (type == "f16") return atomic<uint16_t, plus_f16>;
    if (type == "bf16") return atomic<uint16_t, plus_bf16>;
    if (type == "f16x2") return atomic<uint32_t, plus_pair<plus_f16>>;
    if (type == "bf16x2") return atomic<uint32_t, plus_pair<plus_bf16>>;
  }
#define INTEGERS(name, function) \
  if (op == name) { \
    if (u32) return atomic<uint32_t, function<uint32_t>>; \
    if (s32) return atomic<int32_t, function<int32_t>>; \
    if (u64) return atomic<uint64_t, function<uint64_t>>; \
    if (s64) return atomic<int64_t, function<int64_t>>; \
  }
  INTEGERS("min", least)
  INTEGERS("max", greatest)
#undef INTEGERS
#define BITS(name, function) \
  if (op == name && (b32 || u32 || s32)) return atomic<uint32_t, function<uint32_t>>; \
  if (op == name && (b64 || u64 || s64)) return atomic<uint64_t, function<uint64_t>>;
  BITS("and", bit_and)
  BITS("or", bit_or)
  BITS("xor", bit_xor)
  BITS("exch", exchange)
  BITS("cas", compare_and_swap)
#undef BITS
  if (op == "cas" && type == "b16") return atomic<uint16_t, compare_and_swap<uint16_t>>;
  if (op == "inc" && u32) return atomic<uint32_t, increment>;
  if (op == "dec" && u32) return atomic<uint32_t, decrement>;
  return nullptr;
}

}  // namespace

bool bind_atomic(const Parsed& p, Inst& inst) {
  Qualifiers q;
  if (!read_qualifiers(p, q) || q.type.empty() || q.operation.empty()) return false;
  if (q.space != Space::Generic && q.space != Space::Global && q.space != Space::Shared && q.space != Space::Cluster)
    return false;
  bool returns = p.op() == "atom", cas = q.operation == "cas";
  size_t at = returns ? 1 : 0;
  if (p.operands.size() != at + 2 + cas + q.cache_policy || (cas && !returns)) return false;
  if (q.vector > 4 || (q.vector > 1 && (q.operation != "add" || q.type[0] == 'u' || q.type[0] == 's'))) return false;
  inst.run = atomic_handler(q.operation, q.type);
  int bytes = bytes_of(q.type);
  bool wide = false;
  if (!inst.run || !bind_address(p.operands[at], inst, 0)) return false;
  if (!bind_elements(p.operands[at + 1], q.vector, bytes, false, inst.src, wide) || wide != (bytes == 8)) return false;
  if (cas && (!bind_elements(p.operands[at + 2], 1, bytes, false, inst.src + 4, wide) || wide != (bytes == 8)))
    return false;
  if (returns && p.operands[0].kind != Operand::Sink &&
      (!bind_elements(p.operands[0], q.vector, bytes, true, inst.dst, wide) || wide != (bytes == 8)))
    return false;
  inst.flag[2] = (uint8_t)(bytes * q.vector);
  inst.flag[3] = (uint8_t)q.space;
  inst.flag[4] = (uint8_t)q.vector;
  inst.flag[5] = kStrongAccess | kPublishes | (returns ? kAcquires : 0) | (q.release ? kFences : 0) | (q.in_block ? kInBlock : 0);
  inst.klass = Class::Atomic;
  return true;
}

}  // namespace ptx
