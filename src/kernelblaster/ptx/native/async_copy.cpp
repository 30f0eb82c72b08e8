// Asynchronous copies, which are done at once.
#include "qualifiers.h"

namespace ptx {
namespace {

// Inst: imm[0..1], flag[0] the destination, imm[2..3], flag[2] the source; flag[3] bytes to write,
// src[0] bytes to read (flag[4] == 1) or a predicate that says to read none (2, or 3 if negated).

void copy(Warp& w, const Inst& i) {
  unsigned size = i.flag[3];
  Access to, from;
  to.lanes = w.active;
  to.space = Space::Shared;
  read_addresses(w, i, 0, to);
  read_addresses(w, i, 2, from);
  settle(to);
  uint32_t wanted[kLanes], left = w.active;
  std::fill(wanted, wanted + kLanes, size);
  for (int l = 0; l < kLanes && i.flag[4]; ++l) {
    bool ignored = i.flag[4] >= 2 && ((w.reg(i.src[0]).mask >> l & 1) != (i.flag[4] == 3));
    wanted[l] = i.flag[4] == 1 ? w.reg(i.src[0]).u32[l] : ignored ? 0 : size;
  }
  while (left) {                       // lanes that read equally many bytes are one request
    int first = __builtin_ctz(left);
    uint32_t bytes = wanted[first], lanes = 0;
    for (int l = 0; l < kLanes; ++l) lanes |= (uint32_t)(wanted[l] == bytes) << l;
    lanes &= left;
    left &= ~lanes;
    if (bytes > size)
      w.fault("invalid-argument", text("cp.async of %u bytes with a source size of %u", size, bytes), first);
    if (!bytes) continue;
    Access part = from;
    part.lanes = lanes;
    part.space = Space::Global;
    settle(part);
    check_global(w, part, bytes, size, Effect::Load);
    confirm(w, part, bytes, Effect::Load);
  }
  check_shared(w, to, size, size, Effect::Store);
  each_lane(w.active, [&](int l) {
    struct Sixteen { uint64_t low, high; };
    if (wanted[l] == 16) return write(to.at[l], read<Sixteen>(from.at[l]));
    memcpy((void*)to.at[l], (const void*)from.at[l], wanted[l]);
    memset((uint8_t*)to.at[l] + wanted[l], 0, size - wanted[l]);
  });
  confirm(w, to, size, Effect::Store);
}

void nothing(Warp&, const Inst&) {}

}  // namespace

bool bind_copy(const Parsed& p, Inst& inst) {
  inst.klass = Class::Async;
  if (p.parts.size() < 3 || p.parts[1] != "async") return false;
  const std::string& form = p.parts[2];
  if (form == "commit_group" || form == "wait_group" || form == "wait_all") {   // copies are done at once
    inst.run = nothing;
    return p.parts.size() == 3;
  }
  if (form != "ca" && form != "cg") return false;
  size_t count = p.operands.size();
  bool shared = p.has("shared") || p.has("shared::cta");
  if (p.has("L2::cache_hint")) --count;
  if (!shared || !p.has("global") || count < 3 || count > 4 || p.operands[2].kind != Operand::Immediate) return false;
  uint64_t size = p.operands[2].bits;
  if (size != 16 && (form == "cg" || (size != 4 && size != 8))) return false;
  if (!bind_address(p.operands[0], inst, 0) || !bind_address(p.operands[1], inst, 2)) return false;
  inst.flag[3] = (uint8_t)size;
  if (count == 4) {
    const Operand& limit = p.operands[3];
    if (limit.slot < 0 || (limit.kind == Operand::Register && limit.width == 64)) return false;
    inst.src[0] = source32(limit);
    inst.flag[4] = limit.predicate ? (limit.negated ? 3 : 2) : 1;
  }
  inst.run = copy;
  return true;
}

}  // namespace ptx
