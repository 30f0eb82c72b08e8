// Bulk copies: cp.async.bulk between global and shared memory, without a tensor map. One thread copies many bytes;
// into shared memory it is awaited at an mbarrier, out of it by groups.
#include "bulk_copy.h"
#include "qualifiers.h"
#include "races.h"

namespace ptx {
namespace {

// Inst: imm[0..1], flag[0] the destination; imm[2..3], flag[2] the source; src[0] bytes; src[1], imm of `parsed` the
// mbarrier; src[2] the mask of a multicast. flag[3]: into shared memory; flag[4]: from shared memory.

uint64_t address_of(Warp& w, const Inst& i, int k, int lane) {
  Access a;
  a.lanes = 1u << lane;
  read_addresses(w, i, k, a);
  return a.at[lane];
}

uint32_t size_of(Warp& w, const Inst& i, int lane, uint64_t to, uint64_t from) {
  uint32_t bytes = w.reg(i.src[0]).u32[lane];
  if (bytes % 16) w.fault("invalid-argument", text("a bulk copy of %u bytes, which is not a multiple of 16", bytes), lane);
  if ((to | from) % 16) w.fault("misaligned", "a bulk copy from or to an address that is not a multiple of 16", lane);
  return bytes;
}

void into_shared(Warp& w, const Inst& i) {
  const Operand& barrier = i.parsed->operands[3];
  each_lane(w.active, [&](int l) {
    uint64_t to = address_of(w, i, 0, l), from = address_of(w, i, 2, l);
    SharedPlace place = shared_place(w, to, false, l);
    const uint32_t bytes = size_of(w, i, l, place.offset, from);
    uint64_t at = barrier.slot < 0 ? (uint64_t)barrier.offset : w.reg(barrier.slot).u32[l] + (uint64_t)barrier.offset;
    SharedPlace mbarrier = shared_place(w, at, false, l);
    const uint8_t* source;
    if (i.flag[4]) {
      SharedPlace own = shared_place(w, from, false, l);
      check_proxy(w, own, bytes, l);
      source = bulk_shared(w, own, bytes, false, l);
    } else {
      source = bulk_global(w, from, bytes, 16, false, l);
    }
    const uint32_t ranks = i.src[2] < 0 ? 0 : w.reg(i.src[2]).u32[l] & 0xffff;
    for (Block* block : *w.block->cluster) {
      const bool named = ranks ? ranks >> block->rank & 1 : block == place.block;
      if (!named) continue;
      Copy copy;
      copy.block = block;
      copy.offset = place.offset;
      copy.to = bulk_shared(w, {block, place.offset}, bytes, true, l);
      copy.from = source;
      copy.bytes = copy.wanted = bytes;
      copy.lane = l;
      copy.bulk = true;
      SharedPlace there = ranks ? SharedPlace{block, mbarrier.offset} : mbarrier;
      touch_barrier(w, there, l, Effect::Atomic);
      expect_delivery(there, {{start_copy(w, copy)}, 0, bytes});
    }
  });
}

void into_global(Warp& w, const Inst& i) {
  each_lane(w.active, [&](int l) {
    uint64_t to = address_of(w, i, 0, l);
    SharedPlace from = shared_place(w, address_of(w, i, 2, l), false, l);
    const uint32_t bytes = size_of(w, i, l, to, from.offset);
    check_proxy(w, from, bytes, l);
    Copy copy;
    copy.from = bulk_shared(w, from, bytes, false, l);
    copy.to = bulk_global(w, to, bytes, 16, true, l);
    copy.reads = from.block;
    copy.reads_at = from.offset;
    copy.bytes = copy.wanted = bytes;
    copy.lane = l;
    copy.bulk = true;
    add_to_group(w, l, true, start_copy(w, copy));
  });
}

// What is discarded from the cache before it was written back is lost: as good as overwritten.
void discard(Warp& w, const Inst& i) {
  constexpr uint32_t kLine = 128;
  each_lane(w.active, [&](int l) {
    uint64_t at = address_of(w, i, 0, l);
    if (at % kLine) w.fault("misaligned", "discard of an address that is not a multiple of 128", l);
    memset(bulk_global(w, at, kLine, 16, true, l), 0xd5, kLine);
  });
}

void commit(Warp& w, const Inst&) { commit_copies(w, true); }
void await(Warp& w, const Inst& i) { await_copies(w, true, (uint64_t)i.imm[0]); }
void nothing(Warp&, const Inst&) {}

}  // namespace

// What threads stored there is visible to copies only behind fence.proxy.async.
void check_proxy(Warp& w, const SharedPlace& from, uint32_t bytes, int lane) {
  if (!w.block->order || from.block != w.block) return;
  uint32_t line = unfenced_store(*w.block->order, w.block->shared_written.data(), from.offset, bytes, w.block->launch->grain);
  if (line)
    w.note("memory-order", text("a bulk copy of shared memory that was stored to at line %u, without fence.proxy.async "
                                "behind the store", line), lane);
}

uint8_t* bulk_shared(Warp& w, const SharedPlace& at, uint32_t bytes, bool store, int lane) {
  if (at.offset < kReservedShared || at.offset + bytes > at.block->shared_bytes)
    w.fault("out-of-bounds", text("a bulk copy of %u bytes at shared address 0x%llx, but there are %llu bytes", bytes,
                                  (unsigned long long)at.offset, (unsigned long long)(at.block->shared_bytes - kReservedShared)), lane);
  const uint8_t* flags = at.block->shared_written.data() + at.offset;
  if (!store && memchr(flags, 0, bytes))
    w.note("uninitialized", "a bulk copy of shared memory that nothing has written", lane);
  if (memchr(flags, kUnderWay, bytes))
    w.note("not-awaited", "a bulk copy of shared memory where an asynchronous copy is under way: nothing has waited "
           "for it", lane);
  if (at.block == w.block) watch_span(w, lane, nullptr, at.offset, bytes, store ? Effect::Store : Effect::Load);
  else visit_span(w, at, lane, bytes, store ? Effect::Store : Effect::Load, true);
  return at.block->shared + at.offset;
}

uint8_t* bulk_global(Warp& w, uint64_t address, uint32_t bytes, uint32_t unit, bool store, int lane) {
  Access a;
  a.lanes = 1u << lane;
  a.deep = true;
  for (uint32_t done = 0; done < bytes; done += unit) {
    a.at[lane] = address + done;
    a.space = Space::Global;
    settle(a);
    check_global(w, a, unit, unit, store ? Effect::Store : Effect::Load);
    confirm(w, a, unit, store ? Effect::Store : Effect::Load);
  }
  return (uint8_t*)(uintptr_t)address;
}

bool bind_discard(const Parsed& p, Inst& inst) {
  inst.run = discard;
  inst.klass = Class::Store;
  return p.has("global") && p.operands.size() == 2 && bind_address(p.operands[0], inst, 0);
}

bool bind_bulk_copy(const Parsed& p, Inst& inst) {
  const auto& o = p.operands;
  if (p.has("tensor")) return bind_tensor_copy(p, inst);
  if (p.has("cp_mask") || p.has("ignore_oob")) return false;
  if (p.has("prefetch")) return inst.run = nothing, true;
  if (p.has("commit_group")) return inst.run = commit, true;
  if (p.has("wait_group")) {
    if (o.size() != 1 || o[0].kind != Operand::Immediate) return false;
    inst.imm[0] = (int64_t)o[0].bits;
    return inst.run = await, true;
  }
  if (o.size() < 3 || !bind_address(o[0], inst, 0) || !bind_address(o[1], inst, 2) || o[2].slot < 0) return false;
  inst.src[0] = source32(o[2]);
  const std::string &to = p.parts[3], &from = p.parts[4];
  if (to == "global" && from == "shared::cta" && p.has("bulk_group"))
    return inst.run = into_global, o.size() == 3u + p.has("L2::cache_hint");
  if ((to != "shared::cluster" && to != "shared::cta") || (from != "global" && from != "shared::cta")) return false;
  const bool multicast = p.has("multicast::cluster");
  if (o.size() != 4u + multicast + p.has("L2::cache_hint") || o[3].kind != Operand::Address) return false;
  inst.flag[4] = from == "shared::cta";
  if (multicast) inst.src[2] = source32(o[4]);
  inst.run = into_shared;
  return true;
}

}  // namespace ptx
