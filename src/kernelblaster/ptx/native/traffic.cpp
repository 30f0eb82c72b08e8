// What an access costs: sectors of global and local memory, wavefronts of shared memory.
#include "access.h"
#include "timing.h"

#include <numeric>

namespace ptx {
namespace {

// Distinct values of address >> shift among 32 lanes. Warps mostly walk upwards, where neighbours tell.
int distinct(const uint64_t* at, int shift) {
  uint64_t unit[kLanes], falls = 0, steps = 1;
  for (int l = 0; l < kLanes; ++l) unit[l] = at[l] >> shift;
  for (int l = 1; l < kLanes; ++l) {
    falls |= unit[l] < unit[l - 1];
    steps += unit[l] != unit[l - 1];
  }
  if (!falls) return (int)steps;
  uint64_t table[64];
  std::fill(table, table + 64, ~0ull);   // no unit is ~0: units are addresses shifted right
  int count = 0;
  for (int l = 0; l < kLanes; ++l) {
    uint64_t value = unit[l], slot = value * 0x9e3779b97f4a7c15ull >> 58;
    while (table[slot] != ~0ull && table[slot] != value) slot = (slot + 1) & 63;
    count += table[slot] != value;
    table[slot] = value;
  }
  return count;
}

// An access is aligned to its size, at most 32 bytes: each lane touches one sector.
int sectors(const Access& a) {
  if (a.affine && a.stride <= 32 && a.stride >= -32) return (int)((a.high >> 5) - (a.low >> 5)) + 1;
  return a.affine ? kLanes : distinct(a.at, 5);
}

// Local memory interleaves the lanes: word k of 32 lanes is one line, so 8 lanes at one word are a sector.
int local_sectors(const Access& a, unsigned size) {
  int words = size <= 4 ? 1 : (int)size / 4, count = 0;
  for (int group = 0; group < kLanes; group += 8) {
    uint64_t seen[8];
    int different = 0;
    each_lane(a.lanes & (0xffu << group), [&](int l) {
      if (std::find(seen, seen + different, a.at[l] >> 2) == seen + different) seen[different++] = a.at[l] >> 2;
    });
    count += different * words;
  }
  return count;
}

// A shared access: the wavefronts that it takes, and how many of them only bank conflicts cause.
struct Wavefronts {
  int all, conflicts;
};

// Lanes go in groups that want at most 128 bytes: the warp, or halves of it at 8 bytes a lane, or quarters at 16,
// each a wavefront of its own however few words it wants. Within a group each bank (as wide as the access, if that
// is wider than a word) serves one address a wavefront, to any number of lanes; further addresses are conflicts.
Wavefronts wavefronts(const Access& a, unsigned size) {
  int shift = size <= 4 ? 2 : __builtin_ctz(size), group = 128 >> shift;
  if (a.contiguous(size)) return {kLanes / group, 0};
  int groups = 0;
  for (int start = 0; start < kLanes; start += group)
    groups += (a.lanes & (uint32_t)(((1ull << group) - 1) << start)) != 0;
  if ((a.high >> shift) - (a.low >> shift) < (uint64_t)group) return {groups, 0};   // no bank twice
  if (size == 4 && a.lanes == kAllLanes && a.affine) {
    int all = a.stride == 0 ? 1 : (int)std::gcd(a.stride < 0 ? -(a.stride >> 2) : a.stride >> 2, (int64_t)kLanes);
    return {all, all - 1};
  }
  int total = 0;
  for (int start = 0; start < kLanes; start += group) {
    uint32_t lanes = a.lanes & (uint32_t)(((1ull << group) - 1) << start);
    uint32_t seen[kLanes][kLanes];
    uint8_t count[kLanes] = {0};
    int worst = 0;
    uint64_t last = ~0ull;
    each_lane(lanes, [&](int l) {
      uint64_t unit = a.at[l] >> shift;
      if (unit == last) return;
      last = unit;
      int bank = (int)(unit & (uint64_t)(group - 1));
      for (int k = 0; k < count[bank]; ++k)
        if (seen[bank][k] == (uint32_t)unit) return;
      seen[bank][count[bank]++] = (uint32_t)unit;
      worst = std::max<int>(worst, count[bank]);
    });
    total += worst;
  }
  return {total, total - groups};
}

}  // namespace

void Counts::add(const Counts& o) {
  static_assert(sizeof(Counts) % sizeof(uint64_t) == 0, "all fields are 64-bit counters");
  auto* mine = reinterpret_cast<uint64_t*>(this);
  auto* other = reinterpret_cast<const uint64_t*>(&o);
  for (size_t i = 0; i < sizeof(Counts) / sizeof(uint64_t); ++i) mine[i] += other[i];
}

void count_global(Warp& w, const Access& a, unsigned size, Effect effect) {
  if (w.clock) time_global(w, a, size, effect);
  uint64_t bytes = (uint64_t)__builtin_popcount(a.lanes) * size;
  Counts& c = w.counts;
  if (effect == Effect::Load) {
    c.global_load_requests += 1;
    c.global_load_sectors += sectors(a);
    c.global_load_bytes += bytes;
  } else if (effect == Effect::Store) {
    c.global_store_requests += 1;
    c.global_store_sectors += sectors(a);
    c.global_store_bytes += bytes;
  }
}

void count_shared(Warp& w, const Access& a, unsigned size, Effect effect) {
  if (effect != Effect::Load && effect != Effect::Store) {
    if (w.clock) time_shared(w, 1);
    return;
  }
  auto [all, conflicts] = wavefronts(a, size);
  Counts& c = w.counts;
  if (w.clock) time_shared(w, effect == Effect::Load ? all : 1);
  (effect == Effect::Load ? c.shared_load_requests : c.shared_store_requests) += 1;
  (effect == Effect::Load ? c.shared_load_wavefronts : c.shared_store_wavefronts) += all;
  c.shared_bank_conflicts += conflicts;
}

void count_local(Warp& w, const Access& a, unsigned size) {
  if (w.clock) w.clock->memory_latency = w.clock->block->model->l1_latency;
  w.counts.local_requests += 1;
  w.counts.local_sectors += local_sectors(a, size);
}

}  // namespace ptx
