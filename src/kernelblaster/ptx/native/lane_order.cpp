// What orders lanes of one warp: since Volta they are not in step, so what one of them wrote is there for another
// only after both have met.
#include "races.h"

namespace ptx {
namespace {

// Every lane as `floor` says, for a warp whose lanes met in parts.
uint32_t* details(LaneOrder& l) {
  if (!l.known) {
    l.known.reset(new uint32_t[kLanes * kLanes]);
    std::fill_n(l.known.get(), kLanes * kLanes, l.floor - 1);
  }
  return l.known.get();
}

void meet_team(Order& o, LaneOrder& l, uint32_t team) {
  uint32_t* known = details(l);
  uint32_t all[kLanes] = {0};
  each_lane(team, [&](int a) {
    for (int b = 0; b < kLanes; ++b) all[b] = std::max(all[b], known[a * kLanes + b]);
  });
  each_lane(team, [&](int a) { all[a] = o.now; });
  each_lane(team, [&](int a) { std::copy(all, all + kLanes, known + a * kLanes); });
}

}  // namespace

bool Order::orders_lanes(int warp, int lane, uint32_t at, uint32_t time) const {
  const LaneOrder& l = lanes[warp];
  if (time < l.floor) return true;
  if (!l.known) return false;
  const uint32_t* known = &l.known[lane * kLanes];
  if (!(at & kManyLanes)) return known[at & 31] >= time;
  for (int b = 0; b < kLanes; ++b)
    if (b != lane && known[b] >= time) return true;
  return false;
}

void meet_all_lanes(Warp& w) {
  Order* o = w.block->order;
  if (!o || !o->lanes[w.index].touched) return;
  LaneOrder& l = o->lanes[w.index];
  l.touched = false;
  l.known.reset();
  o->tick();
  l.floor = o->now;
}

void meet_lanes(Warp& w, uint32_t lanes, const uint32_t* named) {
  Order* o = w.block->order;
  if (!o || !o->lanes[w.index].touched) return;
  uint32_t common = kAllLanes;
  each_lane(lanes, [&](int a) { common &= named[a]; });
  if (!(w.alive & ~(common & lanes))) return meet_all_lanes(w);
  LaneOrder& l = o->lanes[w.index];
  for (uint32_t rest = lanes; rest;) {
    uint32_t mask = named[__builtin_ctz(rest)], team = 0;
    each_lane(rest, [&](int a) { team |= (uint32_t)(named[a] == mask) << a; });
    meet_team(*o, l, team);
    rest &= ~team;
  }
  o->tick();
}

}  // namespace ptx
