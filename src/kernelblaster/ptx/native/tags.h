// Tags as an access sees them: what they tell of it need not look at, and what it leaves behind.
#pragma once
#include "races.h"

namespace ptx {

constexpr uint64_t kSameWarp = 0xffffffff0000003full, kMarks = 0xff;
constexpr uint32_t kLane = 31;

// An access as tags see it.
struct Toucher {
  uint64_t tag, block, floor, lane_floor, old, several;
  uint64_t writes, reads;   // marks of earlier writes and reads that this access does not race with
  bool loose;               // nor where they are of the same warp: volatile shared memory does not keep lanes in step
  bool read_only;           // nothing of this launch may have been written, not even by the same lane
  uint32_t at;
};

inline Toucher toucher(const Warp& w, const Access& a, Effect effect) {
  const Order& o = *w.block->order;
  const Messages& m = *w.block->launch->messages;
  Toucher t;
  const uint64_t marks = effect == Effect::Atomic ? kAtomic | kStrong : a.strong ? kStrong : 0;
  t.reads = marks & kStrong;
  t.writes = effect == Effect::Store && marks ? kAtomic : t.reads;
  t.read_only = a.read_only;
  t.loose = !(a.is_volatile && a.space == Space::Shared);
  t.block = (uint64_t)o.serial << 32;
  t.tag = t.block | (uint64_t)o.now << kTimeShift | marks | (uint64_t)w.index;
  t.floor = (uint64_t)o.floor << kTimeShift;
  t.lane_floor = (uint64_t)o.lanes[w.index].floor << kTimeShift;
  const uint32_t running = w.block->launch->running_from;
  const bool waited = !running || o.warps[w.index].waited;
  const bool visited = w.block->cluster->size() > 1;   // its shared memory has tags of this cluster's blocks, and no others
  t.old = a.space != Space::Shared ? (uint64_t)(waited ? m.first_serial : running) << 32 : visited ? 1ull << 32 : t.block;
  t.several = (uint64_t)m.last_serial << 32 | kSeveral;
  t.at = (w.function->code[w.pc].line & kLines) << 10 | (uint32_t)w.index << 5;
  return t;
}

// What a load through the read-only cache is compared with: only earlier launches are of the past.
inline Toucher strict(Toucher t) {
  t.floor = t.lane_floor = 0;
  t.writes = 0;
  return t;
}

// Whether a tag is plainly of the past: of another launch, before a barrier of all, or this warp's own and
// before its lanes last met.
inline bool same_warp(const Toucher& t, uint64_t tag) { return ((tag ^ t.tag) & kSameWarp) == 0; }
inline bool past(const Toucher& t, uint64_t tag) {
  return (tag < t.old) | (tag - t.block < t.floor) | (same_warp(t, tag) & (tag - t.block < t.lane_floor));
}
inline bool harmless(const Toucher& t, uint64_t tag, uint64_t marks) {
  return past(t, tag) | (((tag & marks) != 0) & (t.loose | !same_warp(t, tag)));
}

// Whether it was this lane itself. Of a place that several lanes wrote in one instruction, any of them.
inline bool own_write(const Toucher& t, uint64_t tag, uint32_t at, uint32_t lane) {
  return same_warp(t, tag) & ((((at ^ lane) & kLane) == 0) | (at >> 31)) & !t.read_only;
}
inline bool own_read(const Toucher& t, uint64_t tag, uint32_t at, uint32_t lane) {
  return same_warp(t, tag) & (((at ^ lane) & (kLane | kManyLanes)) == 0);
}

inline uint64_t after_read(const Toucher& t, uint64_t tag) {
  uint64_t both = tag & t.tag & (kStrong | kAtomic);
  uint64_t shared = (tag ^ t.tag) >> 32 ? t.several : (tag & ~kMarks) | kSeveral;
  return past(t, tag) | same_warp(t, tag) ? t.tag : shared | both;
}
// Several lanes, if another one of this warp has read it since they met.
inline uint32_t reader_after(const Toucher& t, uint64_t tag, uint32_t at, uint32_t lane) {
  bool others = same_warp(t, tag) & !past(t, tag) & (((at ^ lane) & (kLane | kManyLanes)) != 0);
  return t.at | lane | (uint32_t)others << 31;
}

// Remembers that a lane's access conflicts with what a tag tells of, unless something orders them.
void suspect(Warp& w, const Access& a, unsigned size, Effect effect, int lane, uint64_t tag, uint32_t at, bool wrote);

}  // namespace ptx
