// Asynchronous copies of a few bytes each: cp.async.
#include "mbarrier.h"
#include "qualifiers.h"

namespace ptx {
namespace {

// Inst: imm[0..1], flag[0] the destination, imm[2..3], flag[2] the source; flag[3] bytes to write, flag[5] past L1,
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
    part.deep = i.flag[5];
    settle(part);
    check_global(w, part, bytes, size, Effect::Load);
    confirm(w, part, bytes, Effect::Load);
  }
  check_shared(w, to, size, size, Effect::Store);
  if (w.block->suspects) report_suspects(w, to, size, Effect::Load);   // it will change memory
  each_lane(w.active, [&](int l) {
    Copy copy;
    copy.block = w.block;
    copy.offset = to.at[l] - (uint64_t)w.block->shared;
    copy.to = (uint8_t*)to.at[l];
    copy.from = (const uint8_t*)from.at[l];
    copy.bytes = size;
    copy.wanted = wanted[l];
    copy.lane = l;
    add_to_group(w, l, false, start_copy(w, copy));
  });
}

void commit(Warp& w, const Inst&) { commit_copies(w, false); }
void await(Warp& w, const Inst& i) {
  if (i.flag[0]) commit_copies(w, false);
  await_copies(w, false, (uint64_t)i.imm[0]);
}

}  // namespace

bool bind_copy(const Parsed& p, Inst& inst) {
  inst.klass = Class::Async;
  if (p.parts.size() < 3 || p.parts[1] != "async") return false;
  const std::string& form = p.parts[2];
  if (form == "bulk") return bind_bulk_copy(p, inst);
  if (form == "mbarrier") return bind_arrive_after_copies(p, inst);
  if (form == "commit_group") return inst.run = commit, p.parts.size() == 3;
  if (form == "wait_group" || form == "wait_all") {
    inst.flag[0] = form == "wait_all";
    inst.run = await;
    if (p.operands.empty()) return form == "wait_all";
    inst.imm[0] = (int64_t)p.operands[0].bits;
    return p.operands[0].kind == Operand::Immediate && p.parts.size() == 3;
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
  inst.flag[5] = form == "cg";
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
