// Visits: accesses to the shared memory of other blocks of a cluster. Nothing orders them but messages, among them the
// barriers of the cluster; and a block may end, or not have begun, while another one is in its memory.
#include "copies.h"
#include "tags.h"

namespace ptx {
namespace {

// Calls body(cell) for the grains that one lane's access touches.
template <typename Body>
void each_cell(const Warp& w, uint64_t offset, unsigned size, Body body) {
  const int grain = w.block->launch->grain;
  for (uint64_t c = offset >> grain; c <= (offset + size - 1) >> grain; ++c) body(c);
}

void check_started(Warp& w, const Access& a, unsigned size, Effect effect, int lane) {
  if (w.block->met) return;
  w.note("race", describe(effect, size, "shared", a.at[lane]) + text(" of block %d of the cluster, which may not have started: "
         "there was no barrier of the cluster before", a.owner->rank), lane);
}

}  // namespace

void check_readers(Warp& w, const Access& a, unsigned size, Effect effect, Order& owner) {
  const uint64_t own = (uint64_t)w.block->order->serial << 32 | (uint64_t)w.index;
  each_lane(a.lanes, [&](int lane) {
    each_cell(w, a.at[lane], size, [&](uint64_t c) {
      auto found = owner.readers.find(c);
      if (found == owner.readers.end()) return;
      for (const Order::Visit& v : found->second)
        if ((v.tag & kSameWarp) != own) suspect(w, a, size, effect, lane, v.tag, v.at, false);
      owner.readers.erase(found);
    });
  });
}

void watch_visit(Warp& w, const Access& a, unsigned size, Effect effect, bool copy) {
  Order* theirs = a.owner->order;
  if (!theirs || !w.block->order) return;
  const int lane = a.first();
  check_started(w, a, size, effect, lane);
  const Toucher t = toucher(w, a, effect);
  const Shadow& s = theirs->shared;
  const Order::Visit visit{t.tag, t.at | (uint32_t)lane, w.arrivals};
  w.block->order->lanes[w.index].touched = true;
  if (!copy) theirs->visits[visit.tag & kSameWarp] = visit;
  if (effect != Effect::Load) check_readers(w, a, size, effect, *theirs);
  each_cell(w, a.at[lane], size, [&](uint64_t c) {
    if (!harmless(t, s.wrote[c], t.writes) && !own_write(t, s.wrote[c], s.wrote_at[c], (uint32_t)lane))
      suspect(w, a, size, effect, lane, s.wrote[c], s.wrote_at[c], true);
    if (effect == Effect::Load) {
      std::vector<Order::Visit>& readers = theirs->readers[c];
      for (Order::Visit& v : readers)
        if ((v.tag & kSameWarp) == (t.tag & kSameWarp)) return void(v = visit);
      return readers.push_back(visit);
    }
    if (!harmless(t, s.read[c], t.reads)) suspect(w, a, size, effect, lane, s.read[c], s.read_at[c], false);
    if (!copy) s.wrote[c] = t.tag, s.wrote_at[c] = visit.at;
  });
}

void check_visits(Block& block) {
  Order& o = *block.order;
  Messages& m = *block.launch->messages;
  for (const auto& [visitor, v] : o.visits) {
    const Earlier access{(uint32_t)(v.tag >> 32), (int)(v.tag & 63), (int)(v.at & 31), (uint32_t)v.tag >> kTimeShift, false, false};
    if (access.block == o.serial) continue;
    bool known = v.arrivals < block.met;   // the visitor has come to a barrier since
    for (const Knowledge& k : o.warps) known |= m.covers(k.heard, access);
    if (known) continue;
    block.warps[0].note("cluster-exit", text("the block ends, and nothing says that block %u of the grid has left its shared memory, "
                        "which that one accesses at line %u", access.block - m.first_serial, line_of(v.at)), 0);
    break;
  }
  o.visits.clear();
}

}  // namespace ptx
