// Loads and stores.
#include "overwritten.h"
#include "qualifiers.h"

namespace ptx {
namespace {

// Inst: flag[2] bytes of all elements, flag[3] space, flag[4] number of elements; src[k] the k-th register.


// The lanes' elements lie one after another: element k of n.
template <int n, typename T, typename D>
void unpack(const T* values, int k, D* d) {
  for (int l = 0; l < kLanes; ++l) d[l] = (D)values[l * n + k];
}

// Vectors of 8 or 16 bytes are read and written at once, as hardware does: look-back scans hand over a value with its state
// in one of them, and blocks of a launch run side by side here, too.
using Sixteen = uint64_t __attribute__((vector_size(16)));

void copy_at_once(void* to, const void* from, size_t bytes) {
  if (bytes == 16 && !(((uint64_t)to | (uint64_t)from) & 15)) *(volatile Sixteen*)to = *(const volatile Sixteen*)from;
  else if (bytes == 8) *(volatile uint64_t*)to = *(const volatile uint64_t*)from;
  else memcpy(to, from, bytes);
}
template <typename T, typename D>
void load_vectors(Warp& w, const Inst& i, const Access& a) {
  const int n = i.flag[4];
  each_lane(a.lanes, [&](int l) {
    alignas(16) T values[8];
    copy_at_once(values, (const void*)a.at[l], n * sizeof(T));
    for (int k = 0; k < n; ++k)
      if (i.src[k] >= 0) lanes_of<D>(w.reg(i.src[k]))[l] = (D)values[k];
  });
}
template <typename T, typename D>
void store_vectors(Warp& w, const Inst& i, const Access& a) {
  const int n = i.flag[4];
  each_lane(a.lanes, [&](int l) {
    alignas(16) T values[8];
    for (int k = 0; k < n; ++k) values[k] = (T)lanes_of<D>(w.reg(i.src[k]))[l];
    copy_at_once((void*)a.at[l], values, n * sizeof(T));
  });
}

// What a strong load returns where it may be an older value.
template <typename T, typename D>
void recall_lanes(Warp& w, const Inst& i, const Access& a) {
  const int n = i.flag[4];
  each_lane(a.lanes, [&](int l) {
    alignas(16) T values[8];
    copy_at_once(values, (const void*)a.at[l], n * sizeof(T));
    if (!recall(w, a, l, a.at[l], values, n * sizeof(T))) return;
    for (int k = 0; k < n; ++k)
      if (i.src[k] >= 0) lanes_of<D>(w.reg(i.src[k]))[l] = (D)values[k];
  });
}

template <typename T, typename D>
void load(Warp& w, const Inst& i) {
  reach(w, i, Effect::Load, [](Warp& w, const Inst& i, const Access& a) {
    int n = i.flag[4];
    T values[4 * kLanes];
    if (n > 1 && a.strong) {
      load_vectors<T, D>(w, i, a);
      n = 0;
    }
    bool block = n && n <= 4 && a.contiguous(n * sizeof(T));
    if (block) memcpy(values, (const void*)a.at[0], n * kLanes * sizeof(T));
    for (int k = 0; k < n; ++k) {
      if (i.src[k] < 0) continue;
      D* d = lanes_of<D>(w.reg(i.src[k]));
      uint64_t skip = k * sizeof(T);
      if (block) {
        n == 1 ? unpack<1>(values, k, d) : n == 2 ? unpack<2>(values, k, d) : unpack<4>(values, k, d);
      } else if (a.affine && a.stride == 0 && a.lanes == kAllLanes) {
        std::fill(d, d + kLanes, (D)read<T>(a.at[0] + skip));
      } else if (a.lanes == kAllLanes) {
        for (int l = 0; l < kLanes; ++l) d[l] = (D)read<T>(a.at[l] + skip);
      } else {
        each_lane(a.lanes, [&](int l) { d[l] = (D)read<T>(a.at[l] + skip); });
      }
    }
    if (a.strong && a.space != Space::Local && remembers(w)) recall_lanes<T, D>(w, i, a);
  });
}

// A lane whose value is not there any more: another one wrote to the same place.
template <typename T, typename D>
void find_collision(Warp& w, const Inst& i, const Access& a) {
  uint32_t lost = 0;
  for (int k = 0; k < i.flag[4]; ++k) {
    const D* s = lanes_of<D>(w.reg(i.src[k]));
    each_lane(a.lanes, [&](int l) { lost |= (uint32_t)(read<T>(a.at[l] + k * sizeof(T)) != (T)s[l]) << l; });
  }
  if (lost) report_collision(w, a, i.flag[4] * sizeof(T), __builtin_ctz(lost));
}

template <typename T, typename D>
void store(Warp& w, const Inst& i) {
  reach(w, i, Effect::Store, [](Warp& w, const Inst& i, const Access& a) {
    int n = i.flag[4];
    if (a.strong && a.space != Space::Local && remembers(w))
      each_lane(a.lanes, [&](int l) { overwrite(w, a, l, a.at[l], (const void*)a.at[l], n * sizeof(T)); });
    if (n > 1 && a.strong) {
      store_vectors<T, D>(w, i, a);
      n = 0;
    }
    for (int k = 0; k < n; ++k) {
      const D* s = lanes_of<D>(w.reg(i.src[k]));
      uint64_t skip = k * sizeof(T);
      if (a.contiguous(sizeof(T)) && n == 1) {
        T values[kLanes];
        for (int l = 0; l < kLanes; ++l) values[l] = (T)s[l];
        memcpy((void*)a.at[0], values, sizeof values);
      } else if (a.lanes == kAllLanes) {
        for (int l = 0; l < kLanes; ++l) write<T>(a.at[l] + skip, (T)s[l]);
      } else {
        each_lane(a.lanes, [&](int l) { write<T>(a.at[l] + skip, (T)s[l]); });
      }
    }
    if (w.block->order && !a.apart(n * sizeof(T)) && a.space != Space::Local) find_collision<T, D>(w, i, a);
  });
}

Handler load_handler(char kind, int bytes, bool wide) {
  bool is_signed = kind == 's';
  switch (bytes) {
    case 1: return is_signed ? (wide ? load<int8_t, uint64_t> : load<int8_t, uint32_t>)
                             : (wide ? load<uint8_t, uint64_t> : load<uint8_t, uint32_t>);
    case 2: return is_signed ? (wide ? load<int16_t, uint64_t> : load<int16_t, uint32_t>)
                             : (wide ? load<uint16_t, uint64_t> : load<uint16_t, uint32_t>);
    case 4: return !wide ? load<uint32_t, uint32_t> : is_signed ? load<int32_t, uint64_t> : load<uint32_t, uint64_t>;
    default: return load<uint64_t, uint64_t>;
  }
}
Handler store_handler(int bytes, bool wide) {
  switch (bytes) {
    case 1: return wide ? store<uint8_t, uint64_t> : store<uint8_t, uint32_t>;
    case 2: return wide ? store<uint16_t, uint64_t> : store<uint16_t, uint32_t>;
    case 4: return wide ? store<uint32_t, uint64_t> : store<uint32_t, uint32_t>;
    default: return store<uint64_t, uint64_t>;
  }
}

}  // namespace

bool bind_load_store(const Parsed& p, Inst& inst, bool writes_memory) {
  Qualifiers q;
  if (!read_qualifiers(p, q) || q.type.empty() || !q.operation.empty()) return false;
  if (p.operands.size() != 2u + q.cache_policy) return false;
  if (writes_memory && (q.space == Space::Param || q.space == Space::Const)) return false;
  const Operand& value = p.operands[writes_memory ? 1 : 0];
  if (!bind_address(p.operands[writes_memory ? 0 : 1], inst, 0)) return false;
  int bytes = bytes_of(q.type), count = q.vector;
  if (bytes * count > 32) return false;
  bool wide = false;
  if (bytes == 16) {                 // a 128-bit register is two of 64 bits
    if (value.kind != Operand::Register || value.width != 128 || count != 1) return false;
    inst.src[0] = value.slot;
    inst.src[1] = value.slot + 1;
    bytes = 8, count = 2, wide = true;
  } else if (!bind_elements(value, count, bytes, !writes_memory, inst.src, wide)) {
    return false;
  }
  if (!writes_memory) std::copy(inst.src, inst.src + 4, inst.dst);
  inst.flag[2] = (uint8_t)(bytes * count);
  inst.flag[3] = (uint8_t)q.space;
  inst.flag[4] = (uint8_t)count;
  if (q.strong)
    inst.flag[5] = kStrongAccess | (writes_memory ? kPublishes : kAcquires) | (q.release ? kFences : 0) |
                   (q.in_block ? kInBlock : 0) | (p.has("volatile") ? kVolatile : 0) |
                   (!writes_memory && !q.acquire ? kRelaxed : 0);
  else if (q.read_only || p.op() == "ldu")
    inst.flag[5] = kReadOnly;
  inst.flag[6] = p.has("cg");
  inst.run = writes_memory ? store_handler(bytes, wide) : load_handler(q.type[0], bytes, wide);
  inst.klass = q.space == Space::Shared || q.space == Space::Cluster ? Class::Shared : writes_memory ? Class::Store : Class::Load;
  return true;
}

}  // namespace ptx
