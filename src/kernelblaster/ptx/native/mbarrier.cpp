// mbarrier: a barrier in shared memory that counts arrivals of threads and bytes of asynchronous copies. All of its
// state is in its 64 bits: arrivals that are missing, those of a whole phase, bytes that are missing, the phase.
#include "mbarrier.h"

#include "qualifiers.h"

namespace ptx {
namespace {

constexpr uint64_t kCount = (1 << 20) - 1;

struct State {
  uint32_t missing, expected;
  int32_t bytes;
  bool phase;
  static State of(uint64_t v) {
    return {(uint32_t)(v & kCount), (uint32_t)(v >> 20 & kCount), (int32_t)(v >> 40 << 11) >> 11, v >> 63 != 0};
  }
  uint64_t bits() const {
    return missing | (uint64_t)expected << 20 | (uint64_t)((uint32_t)bytes & 0x1fffff) << 40 | (uint64_t)phase << 63;
  }
};

State load_state(const SharedPlace& at) { return State::of(read<uint64_t>((uint64_t)at.block->shared + at.offset)); }
void store_state(const SharedPlace& at, State s) { write((uint64_t)at.block->shared + at.offset, s.bits()); }

// Inst: imm[0..1], flag[0] the address; flag[3] != 0: it is generic; src[0] a count or a state, src[1] bytes.

SharedPlace barrier_at(Warp& w, const Inst& i, int lane, Effect effect) {
  Access a;
  a.lanes = 1u << lane;
  read_addresses(w, i, 0, a);
  SharedPlace at = shared_place(w, a.at[lane], i.flag[3] != 0, lane);
  touch_barrier(w, at, lane, effect);
  return at;
}

void end_phase_if_complete(Warp& w, const SharedPlace& at, State& s) {
  if (s.missing || s.bytes) return;
  s.missing = s.expected;
  s.phase = !s.phase;
  complete_phase(w, at);
}

void arrive_at(Warp& w, const SharedPlace& at, uint32_t count, int32_t expected_bytes, int lane) {
  State s = load_state(at);
  s.bytes += expected_bytes;
  if (count > s.missing) w.fault("invalid-argument", text("%u arrivals at an mbarrier that waits for %u", count, s.missing), lane);
  s.missing -= count;
  end_phase_if_complete(w, at, s);
  store_state(at, s);
}

void initialize(Warp& w, const Inst& i) {
  each_lane(w.active, [&](int l) {
    uint32_t count = w.reg(i.src[0]).u32[l];
    SharedPlace at = barrier_at(w, i, l, Effect::Store);
    if (!count || count > kCount) w.fault("invalid-argument", text("an mbarrier for %u arrivals", count), l);
    store_state(at, {count, count, 0, false});
  });
}

void invalidate(Warp& w, const Inst& i) {
  each_lane(w.active, [&](int l) { barrier_at(w, i, l, Effect::Store); });
}

// flag[4]: the arrivals of later phases become fewer too; flag[5]: nothing is published.
void arrive(Warp& w, const Inst& i) {
  each_lane(w.active, [&](int l) {
    SharedPlace at = barrier_at(w, i, l, Effect::Atomic);
    State s = load_state(at);
    uint32_t count = i.src[0] < 0 ? 1 : w.reg(i.src[0]).u32[l];
    if (i.dst[0] >= 0) w.reg(i.dst[0]).u64[l] = s.bits();
    if (i.flag[4]) s.expected -= std::min(count, s.expected), store_state(at, s);
    if (!i.flag[5]) publish_arrival(w, at, l);
    arrive_at(w, at, count, i.src[1] < 0 ? 0 : (int32_t)w.reg(i.src[1]).u32[l], l);
  });
}

template <int sign>
void count_bytes(Warp& w, const Inst& i) {
  each_lane(w.active, [&](int l) {
    SharedPlace at = barrier_at(w, i, l, Effect::Atomic);
    arrive_at(w, at, 0, sign * (int32_t)w.reg(i.src[1]).u32[l], l);
  });
}

// flag[4]: src[0] is a parity rather than a state. What copies still have to deliver here is delivered now.
void test(Warp& w, const Inst& i) {
  uint32_t passed = 0;
  each_lane(w.active, [&](int l) {
    SharedPlace at = barrier_at(w, i, l, Effect::Atomic);
    deliver(w, at);
    bool phase = i.flag[4] ? w.reg(i.src[0]).u32[l] & 1 : w.reg(i.src[0]).u64[l] >> 63;
    if (load_state(at).phase == phase) return;
    passed |= 1u << l;
    receive_phase(w, at);
  });
  w.polls = passed == w.active ? 0 : w.polls + 1;
  uint32_t& result = w.reg(i.dst[0]).mask;
  result = (result & ~w.active) | passed;
}

void missing_arrivals(Warp& w, const Inst& i) {
  each_lane(w.active, [&](int l) { w.reg(i.dst[0]).u32[l] = State::of(w.reg(i.src[0]).u64[l]).missing; });
}

// flag[4]: the arrival was not counted on beforehand, so one more is expected.
void arrive_after_copies(Warp& w, const Inst& i) {
  each_lane(w.active, [&](int l) {
    SharedPlace at = barrier_at(w, i, l, Effect::Atomic);
    if (i.flag[4]) {
      State s = load_state(at);
      s.missing += 1;
      store_state(at, s);
    }
    publish_arrival(w, at, l);
    ThreadCopies& c = copies_of(w, l, false);
    Delivery d;
    d.arrivals = 1;
    while (c.head < c.queue.size() && c.queue[c.head]->done) ++c.head;   // by an mbarrier
    if (c.head == c.queue.size()) c.queue.clear(), c.head = 0;
    d.copies.assign(c.queue.begin() + (long)c.head, c.queue.end());
    for (Copy* copy : d.copies) copy->delivered = true;
    expect_delivery(at, d);
  });
}

bool bind_place(const Parsed& p, Inst& inst, const Operand& o) {
  inst.flag[3] = !p.has("shared") && !p.has("shared::cta") && !p.has("shared::cluster");
  return bind_address(o, inst, 0);
}

}  // namespace

void expect_delivery(const SharedPlace& at, const Delivery& delivery) {
  if (!at.block->copies) at.block->copies = std::make_shared<Copies>();
  at.block->copies->deliveries[at.offset].push_back(delivery);
}

void deliver(Warp& w, const SharedPlace& at) {
  if (!at.block->copies) return;
  auto found = at.block->copies->deliveries.find(at.offset);
  if (found == at.block->copies->deliveries.end()) return;
  std::vector<Delivery> all = std::move(found->second);
  at.block->copies->deliveries.erase(found);
  for (Delivery& d : all) {
    for (Copy* copy : d.copies) finish_copy(*copy), publish_copy(*copy, at);
    arrive_at(w, at, d.arrivals, -(int32_t)d.bytes, __builtin_ctz(w.active));
  }
}

void arrive_with_bytes(Warp& w, const SharedPlace& at, uint32_t bytes, int lane) {
  touch_barrier(w, at, lane, Effect::Atomic);
  publish_arrival(w, at, lane);
  arrive_at(w, at, 0, -(int32_t)bytes, lane);
}

bool bind_arrive_after_copies(const Parsed& p, Inst& inst) {   // cp.async.mbarrier.arrive{.noinc}
  if (p.operands.size() != 1 || !bind_place(p, inst, p.operands[0])) return false;
  inst.flag[4] = !p.has("noinc");
  inst.run = arrive_after_copies;
  return true;
}

bool bind_mbarrier(const Parsed& p, Inst& inst) {
  inst.klass = Class::Async;
  if (p.parts.size() < 3) return false;
  const std::string& form = p.parts[1];
  const auto& o = p.operands;
  auto source = [&](size_t k, int& slot, bool wide) {
    if (k >= o.size() || o[k].slot < 0 || o[k].predicate) return false;
    slot = wide ? source64(o[k]) : source32(o[k]);
    return true;
  };
  if (form == "init") return inst.run = initialize, o.size() == 2 && bind_place(p, inst, o[0]) && source(1, inst.src[0], false);
  if (form == "inval") return inst.run = invalidate, o.size() == 1 && bind_place(p, inst, o[0]);
  if (form == "expect_tx" || form == "complete_tx") {
    inst.run = form == "expect_tx" ? count_bytes<1> : count_bytes<-1>;
    return o.size() == 2 && bind_place(p, inst, o[0]) && source(1, inst.src[1], false);
  }
  if (form == "arrive" || form == "arrive_drop") {
    if (o.size() < 2 || o[0].kind == Operand::Address) return false;
    inst.run = arrive;
    inst.dst[0] = target(o[0]);
    inst.flag[4] = form == "arrive_drop";
    inst.flag[5] = p.has("relaxed");
    if (!bind_place(p, inst, o[1])) return false;
    return o.size() == 2 || (o.size() == 3 && source(2, inst.src[p.has("expect_tx") ? 1 : 0], false));
  }
  if (form == "test_wait" || form == "try_wait") {
    inst.run = test;
    inst.flag[4] = p.has("parity");
    if (o.size() < 3 || !o[0].predicate) return false;
    inst.dst[0] = target(o[0]);
    return bind_place(p, inst, o[1]) && source(2, inst.src[0], !inst.flag[4]);
  }
  if (form != "pending_count" || o.size() != 2) return false;
  inst.run = missing_arrivals;
  inst.dst[0] = target(o[0]);
  return inst.dst[0] >= 0 && source(1, inst.src[0], true);
}

}  // namespace ptx
