// Clusters: blocks that run together and reach each other's shared memory. Such an address is 32 bits wide:
// an offset in the block's own memory, or with the rank of another block, counted from 1, above it.
#include "copies.h"
#include "races.h"

namespace ptx {
namespace {

// The block that an address of the cluster is in.
Block& block_of(Warp& w, uint64_t address, int lane) {
  uint64_t rank = address >> kRankShift;
  if (rank > w.block->cluster->size())
    w.fault("out-of-bounds", text("cluster address 0x%llx is in no block of it", (unsigned long long)address), lane);
  return rank ? *(*w.block->cluster)[rank - 1] : *w.block;
}

}  // namespace

SharedPlace shared_place(Warp& w, uint64_t address, bool generic, int lane) {
  if (generic) address = cluster_address(w, address);
  if (address == kNoCluster) w.fault("invalid-address", "an address that is not in shared memory", lane);
  return {&block_of(w, address, lane), address & kOffset};
}

uint64_t cluster_address(const Warp& w, uint64_t pointer) {
  for (const Block* block : *w.block->cluster) {
    uint64_t offset = pointer - (uint64_t)block->shared;
    if (offset >= block->shared_bytes) continue;
    return block == w.block ? offset : (uint64_t)(block->rank + 1) << kRankShift | offset;
  }
  return kNoCluster;
}

uint64_t cluster_pointer(Warp& w, uint64_t address, int lane) {
  return (uint64_t)block_of(w, address, lane).shared + (address & kOffset);
}

void check_cluster(Warp& w, Access& a, unsigned size, unsigned align, Effect effect) {
  count_shared(w, a, size, effect);
  each_lane(a.lanes, [&](int l) {
    Block& block = block_of(w, a.at[l], l);
    uint64_t offset = a.at[l] & kOffset;
    auto fault = [&](const char* kind, const std::string& why) {
      w.fault(kind, describe(effect, size, "shared", offset) + text(" of block %d of the cluster, ", block.rank) + why, l);
    };
    if (offset & (align - 1)) fault("misaligned", text("which is not a multiple of %u", align));
    if (block.shared_bytes < size || offset < kReservedShared || offset > block.shared_bytes - size)
      fault("out-of-bounds", text("which has %llu bytes", (unsigned long long)(block.shared_bytes - kReservedShared)));
    if (block.finished) fault("out-of-bounds", "which has exited");
    if (block.under_way) {
      Access own;
      own.at[l] = offset;
      own.lanes = 1u << l;
      check_awaited(w, block, own, size, effect);
    }
    Access one;
    one.at[l] = offset;
    one.lanes = 1u << l;
    one.space = Space::Shared;
    one.strong = a.strong;
    one.owner = &block;
    settle(one);
    if (w.block->order && &block == w.block) watch_shared(w, one, size, effect);
    else watch_visit(w, one, size, effect);
    track(w, one, size, (uint64_t)block.shared_written.data(), nullptr, 0, effect);
  });
  each_lane(a.lanes, [&](int l) { a.at[l] = cluster_pointer(w, a.at[l], l); });
  a.affine = false;
}

}  // namespace ptx
