// st.async and red.async: stores and reductions in shared memory of the cluster that count their bytes at an mbarrier
// there. The machine carries them out at once; whoever waits at the mbarrier is ordered behind them.
#include "mbarrier.h"
#include "qualifiers.h"

namespace ptx {
namespace {

// Inst: imm[0..1], flag[0] the address; src[0..3] the values; flag[2] bytes of each, flag[4] how many; flag[6] the
// reduction, 0 for a store; operand 2 the mbarrier.

template <typename T>
T reduced(char operation, bool is_signed, T old, T b) {
  using Signed = typename std::make_signed<T>::type;
  switch (operation) {
    case 'a': return (T)(old + b);
    case 'n': return old & b;
    case 'o': return old | b;
    case 'x': return old ^ b;
    case 'i': return is_signed ? (T)std::min((Signed)old, (Signed)b) : std::min(old, b);
    case 'm': return is_signed ? (T)std::max((Signed)old, (Signed)b) : std::max(old, b);
    default: return b;
  }
}

template <typename T, typename D>
void remote_store(Warp& w, const Inst& i) {
  const Operand& barrier = i.parsed->operands[2];
  const bool is_signed = i.parsed->type()[0] == 's';
  each_lane(w.active, [&](int l) {
    Access a;
    a.lanes = 1u << l;
    read_addresses(w, i, 0, a);
    a.space = Space::Cluster;
    a.strong = i.flag[6] != 0;
    settle(a);
    const unsigned size = i.flag[4] * sizeof(T);
    const Effect effect = i.flag[6] ? Effect::Atomic : Effect::Store;
    check(w, a, size, size, effect);
    for (int k = 0; k < i.flag[4]; ++k) {
      const uint64_t at = a.at[l] + k * sizeof(T);
      write<T>(at, reduced<T>((char)i.flag[6], is_signed, read<T>(at), (T)lanes_of<D>(w.reg(i.src[k]))[l]));
    }
    confirm(w, a, size, effect);
    const uint64_t where = barrier.slot < 0 ? (uint64_t)barrier.offset : w.reg(barrier.slot).u32[l] + (uint64_t)barrier.offset;
    arrive_with_bytes(w, shared_place(w, where, false, l), size, l);
  });
}

char operation_of(const Parsed& p) {
  const std::pair<const char*, char> known[] = {{"add", 'a'}, {"inc", 0}, {"dec", 0}, {"and", 'n'}, {"or", 'o'}, {"xor", 'x'},
                                                {"min", 'i'}, {"max", 'm'}};
  for (const auto& [name, letter] : known)
    if (p.has(name)) return letter;
  return 0;
}

}  // namespace

bool bind_remote_store(const Parsed& p, Inst& inst) {
  inst.klass = Class::Async;
  const bool store = p.op() == "st";
  if (!p.has("shared::cluster") || p.operands.size() != 3 || p.operands[2].kind != Operand::Address) return false;
  const int bytes = bytes_of(p.type()), count = p.has("v4") ? 4 : p.has("v2") ? 2 : 1;
  bool wide = false;
  if ((bytes != 4 && bytes != 8) || !bind_address(p.operands[0], inst, 0)) return false;
  if (!bind_elements(p.operands[1], count, bytes, false, inst.src, wide) || wide != (bytes == 8)) return false;
  inst.flag[4] = (uint8_t)count;
  inst.flag[6] = store ? 0 : (uint8_t)operation_of(p);
  inst.run = bytes == 8 ? remote_store<uint64_t, uint64_t> : remote_store<uint32_t, uint32_t>;
  return store || (inst.flag[6] != 0 && p.type()[0] != 'f');
}

}  // namespace ptx
