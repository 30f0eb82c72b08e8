// What mbarriers order.
#include "mbarrier.h"
#include "races.h"

namespace ptx {
namespace {

uint64_t word_of(const SharedPlace& at) { return ((uint64_t)at.block->shared + at.offset) >> 2; }

}  // namespace

void touch_barrier(Warp& w, const SharedPlace& at, int lane, Effect effect) {
  auto fault = [&](const char* kind, const char* why) {
    w.fault(kind, text("mbarrier at shared address 0x%llx%s", (unsigned long long)at.offset, why), lane);
  };
  if (at.offset & 7) fault("misaligned", ", which is not a multiple of 8");
  if (at.offset < kReservedShared || at.offset + 8 > at.block->shared_bytes) fault("out-of-bounds", ", which is outside");
  uint8_t* flags = at.block->shared_written.data() + at.offset;
  if (effect == Effect::Store) memset(flags, kByThread, 8);
  else if (memchr(flags, 0, 8)) fault("uninitialized", ", which was never initialized");
  if (at.block == w.block) watch_span(w, lane, nullptr, at.offset, 8, effect);
  else visit_span(w, at, lane, 8, effect, false);
}

// Threads of other blocks of a cluster are told as by any other message.
void publish_arrival(Warp& w, const SharedPlace& at, int lane) {
  Order* o = w.block->order;
  if (!o) return;
  if (at.block == w.block) join(o->barriers[at.offset].arriving, o->told_by(w.index));
  o->tick();
  if (w.block->cluster->size() == 1) return;
  o->fence(w.index, 1u << lane, false);
  w.block->launch->messages->publish(word_of(at), publication_of(w));
}

void publish_copy(const Copy& copy, const SharedPlace& at) {
  Order* o = at.block->order;
  if (!o || copy.issuer->block != at.block) return;
  uint32_t& known = o->barriers[at.offset].arriving.known[copy.issuer->index];
  known = std::max(known, o->now);
}

void complete_phase(Warp&, const SharedPlace& at) {
  Order* o = at.block->order;
  if (!o) return;
  BarrierOrder& b = o->barriers[at.offset];
  join(b.completed, b.arriving);
  b.arriving = Knowledge();
  o->tick();
}

void receive_phase(Warp& w, const SharedPlace& at) {
  Order* o = w.block->order;
  if (!o) return;
  Knowledge& k = o->warps[w.index];
  o->messages = true;
  if (at.block == w.block) {
    join(k, o->barriers[at.offset].completed);
    k.fences += k.fences != 0;
  }
  if (w.block->cluster->size() > 1) {
    k.acquired = true;
    w.block->launch->messages->receive(word_of(at), k.heard);
  }
  meet_all_lanes(w);
}

}  // namespace ptx
