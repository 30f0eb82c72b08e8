#include "messages.h"

#include <algorithm>

namespace ptx {
namespace {

std::atomic<uint32_t> next_serial{1};

void join(uint32_t* mine, const uint32_t* theirs, int count) {
  for (int u = 0; u < count; ++u) mine[u] = std::max(mine[u], theirs[u]);
}

// Lanes are of one warp: where knowledge of another warp is joined, only the warps' times count.
void join(Fenced& mine, const Fenced& theirs) { join(mine.warps, theirs.warps, kMostWarps); }

bool holds(const Publication& p, const Earlier& e) {
  if (e.strong && p.warp == e.warp && p.time >= e.time) return true;
  auto before = [&](const Fenced& f) {
    if (e.warp < 0)
      return *std::max_element(f.warps, f.warps + kMostWarps) >= e.time || *std::max_element(f.lanes, f.lanes + kLanes) >= e.time;
    return f.warps[e.warp] >= e.time || (p.warp == e.warp && f.lanes[e.lane] >= e.time);
  };
  return before(p.fenced) || (e.same_block && before(p.fenced_in_block));
}

bool holds(const Heard& h, const Earlier& e) {
  auto own = h.location->by_block.find(e.block);
  if (own == h.location->by_block.end()) return false;
  for (uint32_t k : own->second)
    if (k < h.count && holds(h.location->published[k], e)) return true;
  return false;
}

}  // namespace

HeardOf join(const HeardOf& a, const HeardOf& b) {
  if (!b || a == b) return a;
  if (!a) return b;
  auto both = std::make_shared<HeardList>();
  auto left = a->begin(), right = b->begin();
  while (left != a->end() || right != b->end()) {
    if (right == b->end() || (left != a->end() && left->location < right->location)) both->push_back(*left++);
    else if (left == a->end() || right->location < left->location) both->push_back(*right++);
    else both->push_back({left->location, std::max(left->count, right->count)}), ++left, ++right;
  }
  return both;
}

void join(Knowledge& mine, const Knowledge& theirs) {
  join(mine.known, theirs.known, kMostWarps);
  join(mine.fenced, theirs.fenced);
  join(mine.fenced_in_block, theirs.fenced_in_block);
  mine.heard = join(mine.heard, theirs.heard);
  mine.heard_before_fence = join(mine.heard_before_fence, theirs.heard_before_fence);
  mine.unfenced = join(mine.unfenced, theirs.unfenced);
  mine.fences = std::max(mine.fences, theirs.fences);
  mine.acquired |= theirs.acquired;
  mine.waited |= theirs.waited;
}

std::unique_ptr<Messages> Messages::begin(uint64_t blocks) {
  if (blocks >= UINT32_MAX - next_serial) return nullptr;   // out of serial numbers: no more checks of races
  auto messages = std::make_unique<Messages>();
  messages->first_serial = next_serial.fetch_add((uint32_t)blocks + 1);
  messages->last_serial = messages->first_serial + (uint32_t)blocks;
  return messages;
}

void Messages::publish(uint64_t place, const Publication& p) {
  if (count > kMostPublications) return;
  std::lock_guard<std::mutex> hold(lock);
  Location& l = locations[place];
  if (!l.published.empty()) {
    Publication& last = l.published.back();
    if (last.block == p.block && last.warp == p.warp && last.fences == p.fences) {   // nothing was fenced since
      last.time = p.time;
      return;
    }
  }
  HeardOf before = l.published.empty() ? nullptr : l.published.back().heard;
  ++count;
  l.by_block[p.block].push_back((uint32_t)l.published.size());
  l.published.push_back(p);
  l.published.back().heard = join(before, p.heard);
}

void Messages::receive(uint64_t place, HeardOf& heard) {
  std::lock_guard<std::mutex> hold(lock);
  auto found = locations.find(place);
  if (found == locations.end()) return;
  uint32_t now = (uint32_t)found->second.published.size();
  if (heard)
    for (const Heard& h : *heard)
      if (h.location == &found->second && h.count == now) return;
  heard = join(heard, std::make_shared<HeardList>(1, Heard{&found->second, now}));
}

bool Messages::covers(const HeardOf& heard, const Earlier& earlier) {
  if (count > kMostPublications) return true;
  if (!heard) return false;
  std::lock_guard<std::mutex> hold(lock);
  std::unordered_map<const Location*, uint32_t> done;
  HeardList open = *heard, next;
  while (!open.empty()) {
    for (const Heard& h : open)
      if (holds(h, earlier)) return true;
    next.clear();
    for (const Heard& h : open) {
      uint32_t& seen = done[h.location];
      if (seen >= h.count) continue;
      seen = h.count;
      const HeardOf& more = h.location->published[h.count - 1].heard;
      if (more) next.insert(next.end(), more->begin(), more->end());
    }
    open.swap(next);
  }
  return false;
}

}  // namespace ptx
