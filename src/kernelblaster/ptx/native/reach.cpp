// The way of loads, stores and atomics from an operand to data: all steps but the last, which moves it.
#include "access.h"

namespace ptx {
namespace {

// Calls body(part) for the lanes of each space that generic addresses turn out to be in.
template <typename Body>
void split(Warp& w, const Access& a, Body body) {
  Window shared = shared_window(w), param = param_window(w);
  Space spaces[] = {Space::Global, Space::Shared, Space::Local, Space::Param, Space::Cluster};
  uint32_t lanes[5] = {0, 0, 0, 0, 0};
  const bool alone = w.block->cluster->size() == 1;
  each_lane(a.lanes, [&](int l) {
    uint64_t address = a.at[l];
    int k = shared.holds(address) ? 1 : local_window(w, l).holds(address) ? 2 : param.holds(address) ? 3
            : !alone && cluster_address(w, address) != kNoCluster ? 4 : 0;
    lanes[k] |= 1u << l;
  });
  for (int k = 0; k < 5; ++k) {
    if (!lanes[k]) continue;
    Access part = a;
    part.lanes = lanes[k];
    part.space = spaces[k];
    each_lane(part.lanes, [&](int l) {
      if (k == 1) part.at[l] -= shared.start;
      if (k == 2) part.at[l] -= local_window(w, l).start;
      if (k == 4) part.at[l] = cluster_address(w, part.at[l]);
    });
    settle(part);
    body(part);
  }
}

inline bool touches(const Access& a, uint64_t start, uint64_t bytes) {
  return bytes && a.high >= start && a.low < start + bytes;
}

// A strong read that found what it had found before at the same place is one more poll; any other one is progress.
void note_poll(Warp& w, const Inst& i, uint64_t low, uint64_t high) {
  const uint64_t value = i.dst[0] < 0 ? 0 : w.reg(i.dst[0]).u32[__builtin_ctz(w.active)];
  uint64_t& last = w.polled[w.pc % kPolledPlaces];
  const uint64_t now = mixed(low, mixed(high, value ^ (uint64_t)w.active << 32));
  w.polls = last == now ? w.polls + 1 : 0;
  last = now;
}

}  // namespace

void reach(Warp& w, const Inst& i, Effect effect, Move move) {
  const uint8_t ordering = w.block->order ? i.flag[5] : 0;
  if (ordering & kFences) fence_order(w, ordering & kInBlock);
  if (effect == Effect::Store) w.polls = 0;
  Access a;
  unsigned size = i.flag[2];
  a.lanes = w.active;
  a.space = (Space)i.flag[3];
  a.strong = i.flag[5] & kStrongAccess;
  a.is_volatile = i.flag[5] & kVolatile;
  a.read_only = i.flag[5] & kReadOnly;
  a.deep = i.flag[6];
  read_addresses(w, i, 0, a);
  settle(a);
  const uint64_t low = a.low, high = a.high;
  auto access = [&](Access& part) {
    check(w, part, size, size, effect);
    if (ordering & kStrongAccess) check_scope(w, part, size, ordering & kInBlock);
    if (ordering & kPublishes) publish(w, part, size);
    move(w, i, part);
    confirm(w, part, size, effect);
    if (ordering & kAcquires) acquire(w, part, size, ordering & kRelaxed);
  };
  if (a.space == Space::Generic) {
    Window shared = shared_window(w), param = param_window(w), local = local_window(w, 0);
    if (touches(a, shared.start, shared.bytes) || touches(a, local.start, local.bytes * kLanes) ||
        touches(a, param.start, param.bytes) || w.block->cluster->size() > 1) {
      split(w, a, access);
      if (i.flag[5] & kAcquires) note_poll(w, i, low, high);
      return;
    }
    a.space = Space::Global;
  }
  access(a);
  if (i.flag[5] & kAcquires) note_poll(w, i, low, high);
}

}  // namespace ptx
