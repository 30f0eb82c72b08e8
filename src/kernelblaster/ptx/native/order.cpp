// What orders accesses: barriers, fences and messages.
#include "races.h"

#include <cstdlib>

namespace ptx {
namespace {

constexpr uint32_t kLastTime = (1u << (32 - kTimeShift)) - 1;
constexpr uint64_t kClusterPlace = 1ull << 63;   // beside words of memory

// The tags of shared memory outlive a block: those of earlier blocks have smaller serial numbers. Where the
// arrays begin depends on how many cells there are, so another number of them means starting afresh.
thread_local std::vector<SharedTags> unused;

SharedTags take_tags(uint64_t words, uint32_t serial) {
  SharedTags tags;
  if (!unused.empty()) tags = std::move(unused.back()), unused.pop_back();
  if (tags.words.size() != words || tags.last_user > serial) tags.words.assign(words, 0);
  tags.last_user = serial;
  return tags;
}

// Calls body(word) for every word of memory that an access touches, once as a rule.
template <typename Body>
void each_word(const Access& a, unsigned size, Body body) {
  uint64_t last = ~0ull;
  each_lane(a.lanes, [&](int l) {
    for (uint64_t word = a.at[l] >> 2; word <= (a.at[l] + size - 1) >> 2; ++word)
      if (word != last) body(last = word);
  });
}

uint64_t place_of_cluster(const Warp& w) { return kClusterPlace | (*w.block->cluster)[0]->order->serial; }

}  // namespace

Shadow::Shadow(uint64_t* tags, uint64_t cells, uint64_t first_grain)
    : wrote(tags), read(tags + cells), wrote_at((uint32_t*)(tags + 2 * cells)), read_at(wrote_at + cells),
      first(first_grain) {}

Order::Order(uint32_t block, int count, uint64_t shared_bytes, int grain, bool visited)
    : serial(block), warps(count), lanes(count), visited_(visited) {
  uint64_t cells = Shadow::cells(shared_bytes, grain);
  tags_ = take_tags(cells * 3, visited ? 0 : block);
  shared = Shadow(tags_.words.data(), cells, 0);
}

Order::~Order() {
  if (visited_) tags_.last_user = UINT32_MAX;   // they tell of other blocks, too
  unused.push_back(std::move(tags_));
}

void Order::tick() { now = std::min(now + 1, kLastTime); }

void Order::fence(int warp, uint32_t active, bool block_only) {
  Knowledge& k = warps[warp];
  Fenced& f = block_only ? k.fenced_in_block : k.fenced;
  for (int u = 0; u < (int)warps.size(); ++u) f.warps[u] = std::max({f.warps[u], k.known[u], floor - 1});
  f.warps[warp] = std::max(f.warps[warp], lanes[warp].floor - 1);
  each_lane(active, [&](int lane) {
    f.lanes[lane] = now;
    if (const uint32_t* known = lanes[warp].known.get())
      for (int b = 0; b < kLanes; ++b) f.lanes[b] = std::max(f.lanes[b], known[lane * kLanes + b]);
  });
  if (k.unfenced) k.heard = join(k.heard, k.unfenced), k.unfenced.reset();
  if (!block_only) k.heard_before_fence = k.heard;
  k.fences += 1;
  messages = true;
  tick();
}

Knowledge Order::told_by(int warp) const {
  Knowledge told = warps[warp];
  told.known[warp] = now;
  for (Fenced* f : {&told.fenced, &told.fenced_in_block}) {
    f->warps[warp] = std::max(f->warps[warp], *std::max_element(f->lanes, f->lanes + kLanes));
    std::fill_n(f->lanes, kLanes, 0);
  }
  return told;
}

Publication publication_of(const Warp& w) {
  const Order& o = *w.block->order;
  const Knowledge& k = o.warps[w.index];
  return {o.serial, w.index, o.now, k.fences, k.fenced, k.fenced_in_block, k.heard_before_fence};
}

void Order::arrive(int warp, int barrier) {
  join(arrived[barrier], told_by(warp));
  tick();
}

void Order::meet(uint32_t waiting, int barrier, bool everyone) {
  if (!everyone || messages) {
    Knowledge all = arrived[barrier];
    arrived[barrier] = Knowledge();
    each_lane(waiting, [&](int u) { join(all, told_by(u)); });
    all.fences += all.fences != 0;   // what is fenced may have become more
    each_lane(waiting, [&](int u) { warps[u] = all; });
  }
  tick();
  if (everyone) floor = now;
  each_lane(waiting, [&](int u) {
    lanes[u].floor = now;
    lanes[u].known.reset();
  });
}

bool Order::orders(const Warp& w, int lane, const Conflict& c, const Access& a, Effect effect) const {
  const Knowledge& k = warps[w.index];
  uint32_t block = (uint32_t)(c.tag >> 32), time = (uint32_t)c.tag >> kTimeShift;
  int warp = (int)(c.tag & 63);
  const bool several = warp == (int)kSeveral, same_block = block == serial;
  Messages& m = *w.block->launch->messages;
  if (same_block) {
    if (time < floor) return true;
    if (warp == w.index) return orders_lanes(warp, lane, c.at, time);
    if (several) {
      for (int u = 0; u < (int)warps.size(); ++u)
        if (u != w.index && k.known[u] >= time) return true;
    } else if (k.known[warp] >= time) {
      return true;
    }
  } else if (a.space == Space::Shared) {
    if (!visited_) return true;   // another block's memory, long gone
    return m.covers(k.heard, {block, several ? -1 : warp, (int)(c.at & 31), time, false, false});
  } else if (block < m.first_serial) {
    return k.waited;
  }
  if (!k.acquired) return false;
  if (several || (c.tag & kStrong && !c.wrote)) return true;
  // Whoever has the last ticket may reset the counter, atomics on which it has seen.
  if (c.tag & kAtomic && effect != Effect::Load) return true;
  // What a volatile or relaxed load has read holds for loads that reach as far; for others, behind a fence.
  const HeardOf& heard = a.strong || a.deep || effect != Effect::Load ? join(k.heard, k.unfenced) : k.heard;
  return m.covers(heard, {block, warp, (int)(c.at & 31), time, (c.tag & kStrong) != 0, same_block});
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

void fence_order(Warp& w, bool block_only) {
  if (w.block->order) w.block->order->fence(w.index, w.active, block_only);
}

void publish(Warp& w, const Access& a, unsigned size) {
  Order& o = *w.block->order;
  if (!o.warps[w.index].fences) return;
  const Publication p = publication_of(w);
  each_word(a, size, [&](uint64_t word) { w.block->launch->messages->publish(word, p); });
  o.tick();
}

void acquire(Warp& w, const Access& a, unsigned size, bool relaxed) {
  Order& o = *w.block->order;
  Messages& m = *w.block->launch->messages;
  Knowledge& k = o.warps[w.index];
  k.acquired = o.messages = true;
  if (!m.count) return;
  HeardOf& heard = relaxed ? k.unfenced : k.heard;
  const HeardOf before = heard;
  each_word(a, size, [&](uint64_t word) { m.receive(word, heard); });
  if (heard != before) meet_all_lanes(w);   // lanes that wait for each other
}

void publish_to_cluster(Warp& w, uint32_t lanes, bool relaxed) {
  Order& o = *w.block->order;
  if (relaxed && !o.warps[w.index].fences) return;
  if (!relaxed) o.fence(w.index, lanes, false);
  w.block->launch->messages->publish(place_of_cluster(w), publication_of(w));
  o.tick();
}

void acquire_from_cluster(Warp& w) {
  Order& o = *w.block->order;
  Knowledge& k = o.warps[w.index];
  k.acquired = o.messages = true;
  w.block->launch->messages->receive(place_of_cluster(w), k.heard);
  meet_all_lanes(w);
}

void fence_proxy(Warp& w) {
  Order* o = w.block->order;
  if (!o) return;
  o->proxy_fenced = o->now;
  o->tick();
}

void end_dependence(Warp& w) {
  if (!w.block->order) return;
  w.block->order->warps[w.index].waited = w.block->order->messages = true;
}

}  // namespace ptx
