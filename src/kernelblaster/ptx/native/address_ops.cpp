// Address conversion, fences and hints; and where every memory instruction is bound.
#include "mbarrier.h"
#include "qualifiers.h"

namespace ptx {
namespace {

void nothing(Warp&, const Inst&) {}
void fence(Warp& w, const Inst& i) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  fence_order(w, i.imm[0] != 0);
}
void copies_see(Warp& w, const Inst&) { fence_proxy(w); }
void policy(Warp& w, const Inst& i) { lanes64(w, i.dst[0], [](int) { return 0; }); }

void same_address(Warp& w, const Inst& i) {
  const Reg& a = w.reg(i.src[0]);
  lanes64(w, i.dst[0], [&](int l) { return a.u64[l]; });
}
template <int sign>
void convert_shared(Warp& w, const Inst& i) {
  const Reg& a = w.reg(i.src[0]);
  uint64_t base = (uint64_t)w.block->shared;
  lanes64(w, i.dst[0], [&](int l) { return sign > 0 ? a.u64[l] + base : a.u64[l] - base; });
}
template <int sign>
void convert_local(Warp& w, const Inst& i) {
  const Reg& a = w.reg(i.src[0]);
  uint64_t base = (uint64_t)w.local, bytes = local_window(w, 0).bytes;
  lanes64(w, i.dst[0], [&](int l) {
    uint64_t own = base + (uint64_t)l * bytes;
    return sign > 0 ? a.u64[l] + own : a.u64[l] - own;
  });
}
// A parameter's address may be an offset, which becomes a pointer.
void convert_param(Warp& w, const Inst& i) {
  const Reg& a = w.reg(i.src[0]);
  Window param = param_window(w);
  lanes64(w, i.dst[0], [&](int l) { return a.u64[l] < param.bytes ? a.u64[l] + param.start : a.u64[l]; });
}

void to_cluster(Warp& w, const Inst& i) {
  const Reg& a = w.reg(i.src[0]);
  lanes64(w, i.dst[0], [&](int l) { return cluster_address(w, a.u64[l]); });
}
void from_cluster(Warp& w, const Inst& i) {
  Reg& d = w.reg(i.dst[0]);
  const Reg& a = w.reg(i.src[0]);
  each_lane(w.active, [&](int l) { d.u64[l] = cluster_pointer(w, a.u64[l], l); });
}

// The same variable of another block of the cluster: imm[0] says that addresses are of shared memory and
// 32 bits wide, otherwise they are generic.
void same_place_elsewhere(Warp& w, const Inst& i) {
  Reg& d = w.reg(i.dst[0]);
  const Reg &a = w.reg(i.src[0]), &rank = w.reg(i.src[1]);
  each_lane(w.active, [&](int l) {
    uint64_t own = i.imm[0] ? a.u32[l] : cluster_address(w, a.u64[l]);
    if (rank.u32[l] >= w.block->cluster->size())
      w.fault("invalid-address", text("mapa to block %u of a cluster of %zu", rank.u32[l], w.block->cluster->size()), l);
    if (own == kNoCluster) w.fault("invalid-address", "mapa of an address that is not in shared memory", l);
    uint64_t there = (uint64_t)(rank.u32[l] + 1) << kRankShift | (own & kOffset);
    if (i.imm[0]) d.u32[l] = (uint32_t)there;
    else d.u64[l] = cluster_pointer(w, there, l);
  });
}

bool bind_elsewhere(const Parsed& p, Inst& inst) {
  const bool narrow = p.has("shared::cluster") && p.type() == "u32";
  if (p.operands.size() != 3 || !(narrow || (p.type() == "u64" && p.parts.size() == 2))) return false;
  inst.dst[0] = target(p.operands[0]);
  inst.src[0] = narrow ? source32(p.operands[1]) : source64(p.operands[1]);
  inst.src[1] = source32(p.operands[2]);
  inst.imm[0] = narrow;
  inst.run = same_place_elsewhere;
  inst.klass = Class::Integer;
  return inst.dst[0] >= 0 && inst.src[0] >= 0 && inst.src[1] >= 0;
}

// Whose shared memory an address is in, by rank.
void rank_of_address(Warp& w, const Inst& i) {
  Reg& d = w.reg(i.dst[0]);
  const Reg& a = w.reg(i.src[0]);
  each_lane(w.active, [&](int l) {
    d.u32[l] = (uint32_t)shared_place(w, i.imm[0] ? a.u32[l] : a.u64[l], !i.imm[0], l).block->rank;
  });
}

bool bind_rank_of_address(const Parsed& p, Inst& inst) {
  const bool narrow = p.has("shared::cluster") && p.type() == "u32";
  if (p.operands.size() != 2 || !(narrow || p.type() == "u64")) return false;
  inst.dst[0] = target(p.operands[0]);
  inst.src[0] = narrow ? source32(p.operands[1]) : source64(p.operands[1]);
  inst.imm[0] = narrow || p.has("shared::cluster");
  inst.run = rank_of_address;
  inst.klass = Class::Integer;
  return inst.dst[0] >= 0 && inst.src[0] >= 0;
}

Space space_of(const Warp& w, int lane, uint64_t address) {
  if (shared_window(w).holds(address)) return Space::Shared;
  if (local_window(w, lane).holds(address)) return Space::Local;
  if (param_window(w).holds(address)) return Space::Param;
  if (const Module* module = w.block->launch->module)
    for (const auto& entry : module->globals)
      if (entry.second.space == Space::Const && address - entry.second.address < entry.second.bytes) return Space::Const;
  return Space::Global;
}
void is_space(Warp& w, const Inst& i) {
  const Reg& a = w.reg(i.src[0]);
  lanes_predicate(w, i.dst[0], [&](int l) -> bool {
    if (!(w.active >> l & 1)) return false;
    if ((Space)i.flag[3] == Space::Cluster) return cluster_address(w, a.u64[l]) != kNoCluster;
    return space_of(w, l, a.u64[l]) == (Space)i.flag[3];
  });
}

// Only 64-bit: a host pointer does not fit into 32 bits.
bool bind_conversion(const Parsed& p, Inst& inst) {
  Qualifiers q;
  Parsed rest = p;
  bool to = p.parts.size() > 1 && p.parts[1] == "to";
  if (to) rest.parts.erase(rest.parts.begin() + 1);
  if (!read_qualifiers(rest, q) || q.type != "u64" || q.space == Space::Generic || p.operands.size() != 2) return false;
  inst.dst[0] = target(p.operands[0]);
  inst.src[0] = source64(p.operands[1]);
  if (inst.src[0] < 0) return false;
  inst.klass = Class::Integer;
  switch (q.space) {
    case Space::Shared: inst.run = to ? convert_shared<-1> : convert_shared<1>; break;
    case Space::Cluster: inst.run = to ? to_cluster : from_cluster; break;
    case Space::Local: inst.run = to ? convert_local<-1> : convert_local<1>; break;
    case Space::Param: inst.run = to ? same_address : convert_param; break;
    default: inst.run = same_address;
  }
  return true;
}

bool bind_is_space(const Parsed& p, Inst& inst) {
  Qualifiers q;
  if (!read_qualifiers(p, q) || q.space == Space::Generic || p.operands.size() != 2) return false;
  if (p.operands[1].kind == Operand::Register && p.operands[1].width != 64) return false;
  inst.dst[0] = target(p.operands[0]);
  inst.src[0] = source64(p.operands[1]);
  inst.flag[3] = (uint8_t)q.space;
  inst.run = is_space;
  inst.klass = Class::Integer;
  return inst.src[0] >= 0;
}

bool bind_without_effect(Inst& inst, Handler run, Class klass) {
  inst.run = run;
  inst.klass = klass;
  return true;
}

}  // namespace

bool bind_memory(const Parsed& p, Inst& inst) {
  const std::string& op = p.op();
  if ((op == "st" || op == "red") && p.has("async")) return bind_remote_store(p, inst);
  if (op == "ld" || op == "ldu") return bind_load_store(p, inst, false);
  if (op == "st") return bind_load_store(p, inst, true);
  if (op == "atom" || op == "red") return bind_atomic(p, inst);
  if (op == "cp") return bind_copy(p, inst);
  if (op == "mbarrier") return bind_mbarrier(p, inst);
  if (op == "cvta") return bind_conversion(p, inst);
  if (op == "mapa") return bind_elsewhere(p, inst);
  if (op == "getctarank") return bind_rank_of_address(p, inst);
  if (op == "isspacep") return bind_is_space(p, inst);
  if (op == "membar" || op == "fence") {
    inst.imm[0] = p.has("cta");
    const bool proxy = std::any_of(p.parts.begin(), p.parts.end(), [](const std::string& s) { return s.compare(0, 5, "async") == 0; });
    return bind_without_effect(inst, !p.has("proxy") ? fence : proxy ? copies_see : nothing, Class::Control);
  }
  if (op == "prefetch" || op == "prefetchu" || op == "applypriority")
    return bind_without_effect(inst, nothing, Class::Load);
  if (op == "discard") return bind_discard(p, inst);
  if (op == "createpolicy") {
    if (p.operands.empty()) return false;
    inst.dst[0] = target(p.operands[0]);
    return bind_without_effect(inst, policy, Class::Move);
  }
  return false;
}

}  // namespace ptx
