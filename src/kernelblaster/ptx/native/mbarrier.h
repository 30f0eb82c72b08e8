// What mbarriers and the copies that arrive at them tell each other, and what they mean for the order of threads.
#pragma once
#include "copies.h"

namespace ptx {

// Copies that will arrive at an mbarrier, which happens when somebody waits there.
void expect_delivery(const SharedPlace& at, const Delivery& delivery);
void deliver(Warp& w, const SharedPlace& at);

// Order (barrier_order.cpp): an arrival publishes what its warp knows, the end of a phase makes it known to whoever
// finds that it has ended; copies that arrived are among it.
void touch_barrier(Warp& w, const SharedPlace& at, int lane, Effect effect);   // bounds, alignment, races
void publish_arrival(Warp& w, const SharedPlace& at, int lane);
void publish_copy(const Copy& copy, const SharedPlace& at);
void complete_phase(Warp& w, const SharedPlace& at);
void receive_phase(Warp& w, const SharedPlace& at);

bool bind_arrive_after_copies(const Parsed& p, Inst& inst);
bool bind_mbarrier(const Parsed& p, Inst& inst);
// Bytes have come to shared memory by an instruction of this lane.
void arrive_with_bytes(Warp& w, const SharedPlace& at, uint32_t bytes, int lane);
bool bind_remote_store(const Parsed& p, Inst& inst);   // remote_store.cpp
bool bind_discard(const Parsed& p, Inst& inst);
bool bind_bulk_copy(const Parsed& p, Inst& inst);   // bulk_copy.cpp

}  // namespace ptx
