// What orders accesses: barriers, fences and messages.
#include "races.h"

#include <cstdlib>

namespace ptx {
namespace {

constexpr uint32_t kLastTime = (1u << (32 - kTimeShift)) - 1;
std::atomic<uint32_t> next_serial{1};

void join(uint32_t* mine, const uint32_t* theirs) {
  for (int u = 0; u < kMostWarps; ++u) mine[u] = std::max(mine[u], theirs[u]);
}

void join(Knowledge& mine, const Knowledge& theirs) {
  join(mine.known, theirs.known);
  join(mine.fenced, theirs.fenced);
  mine.unpublished |= theirs.unpublished;
  mine.acquired = std::max(mine.acquired, theirs.acquired);
}

// The tags of shared memory outlive a block: those of earlier blocks have smaller serial numbers. Where the
// arrays begin depends on how many cells there are, so another number of them means starting afresh.
uint64_t* shared_tags(int rank, uint64_t words) {
  thread_local std::map<int, std::vector<uint64_t>> by_rank;
  std::vector<uint64_t>& tags = by_rank[rank];
  if (tags.size() != words) tags.assign(words, 0);
  return tags.data();
}

}  // namespace

Shadow::Shadow(uint64_t* tags, uint64_t cells, uint64_t first_grain)
    : wrote(tags), read(tags + cells), wrote_at((uint32_t*)(tags + 2 * cells)), read_at(wrote_at + cells),
      first(first_grain) {}

std::unique_ptr<Messages> Messages::begin(uint64_t blocks) {
  if (blocks >= UINT32_MAX - next_serial) return nullptr;   // out of serial numbers: no more checks of races
  auto messages = std::make_unique<Messages>();
  messages->first_serial = next_serial.fetch_add((uint32_t)blocks + 1);
  messages->last_serial = messages->first_serial + (uint32_t)blocks;
  return messages;
}

Order::Order(uint32_t block, int rank, int count, uint64_t shared_bytes, int grain) : serial(block), warps(count) {
  uint64_t cells = Shadow::cells(shared_bytes, grain);
  shared = Shadow(shared_tags(rank, cells * 3), cells, 0);
}

void Order::tick() { now = std::min(now + 1, kLastTime); }

void Order::fence(int warp) {
  Knowledge& k = warps[warp];
  for (int u = 0; u < (int)warps.size(); ++u) k.fenced[u] = std::max({k.fenced[u], k.known[u], floor - 1});
  k.fenced[warp] = now;
  k.unpublished = true;
  messages = true;
  tick();
}

void Order::arrive(int warp, int barrier) {
  Knowledge told = warps[warp];
  told.known[warp] = now;
  join(arrived[barrier], told);
  tick();
}

void Order::meet(uint32_t waiting, int barrier, bool everyone) {
  if (!everyone || messages) {
    Knowledge all = arrived[barrier];
    arrived[barrier] = Knowledge();
    each_lane(waiting, [&](int u) {
      join(all, warps[u]);
      all.known[u] = now;
    });
    each_lane(waiting, [&](int u) { warps[u] = all; });
  }
  tick();
  if (everyone) floor = now;
}

bool Order::orders(const Warp& w, uint64_t tag, bool wrote, bool in_shared) const {
  const Knowledge& k = warps[w.index];
  uint32_t block = (uint32_t)(tag >> 32), time = (uint32_t)tag >> kTimeShift;
  int warp = (int)(tag & 63);
  bool several = warp == (int)kSeveral;
  if (block == serial) {
    if (time < floor) return true;
    if (several) {
      for (int u = 0; u < (int)warps.size(); ++u)
        if (u != w.index && k.known[u] >= time) return true;
    } else if (k.known[warp] >= time) {
      return true;
    }
  } else if (in_shared) {
    return true;   // another block's memory, long gone
  }
  if (!k.acquired) return false;
  if (several || tag & kAtomic || (tag & kStrong && !wrote)) return true;
  Messages& m = *w.block->launch->messages;
  std::lock_guard<std::mutex> hold(m.lock);
  auto found = m.published.find(block);
  if (found == m.published.end()) return false;
  for (const Publication& p : found->second)
    if (p.number <= k.acquired && (p.fenced[warp] >= time || (tag & kStrong && p.warp == warp && p.time >= time))) return true;
  return false;
}

Shadow shadow_of(Memory& memory, Allocation& allocation, int grain) {
  std::lock_guard<std::mutex> hold(memory.lock);
  if (!allocation.tags || allocation.tags_grain > grain) {
    uint64_t cells = Shadow::cells(allocation.bytes, grain);
    allocation.tags.reset((uint64_t*)calloc(cells * 3, sizeof(uint64_t)), free);
    if (!allocation.tags) throw std::bad_alloc();
    allocation.tags_grain = grain;
  }
  return Shadow(allocation.tags.get(), Shadow::cells(allocation.bytes, allocation.tags_grain), allocation.start >> grain);
}

void fence_order(Warp& w) {
  if (w.block->order) w.block->order->fence(w.index);
}

bool publish(Warp& w) {
  Knowledge& k = w.block->order->warps[w.index];
  if (!k.unpublished) return false;
  k.unpublished = false;
  Messages& m = *w.block->launch->messages;
  std::lock_guard<std::mutex> hold(m.lock);
  Publication p;
  p.number = ++m.count;
  p.warp = w.index;
  p.time = w.block->order->now;
  std::copy(k.fenced, k.fenced + kMostWarps, p.fenced);
  auto& mine = m.published[w.block->order->serial];
  if (mine.size() < kMostPublications) mine.push_back(p);
  else join(mine.back().fenced, p.fenced);
  return true;
}

void end_message(Warp& w) { w.block->order->tick(); }

void acquire(Warp& w) {
  Order& o = *w.block->order;
  o.messages = true;
  o.warps[w.index].acquired = w.block->launch->messages->count.load(std::memory_order_acquire);
}

}  // namespace ptx
