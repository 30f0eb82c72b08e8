// Older values: a volatile or relaxed read may return what was there before a write that nothing orders before it. The
// machine's memory is in step, so it remembers what the last strong write to each place replaced; a launch that is drawn
// `stale` returns that for a while. A thread that waits for a value reads again; one that relies on an order which it does
// not have computes something else.
#pragma once
#include "access.h"

namespace ptx {

// A strong write replaces `before` (size bytes) at a host address; call it before the write, or with what an atomic found.
void overwrite(Warp& w, const Access& a, int lane, uint64_t address, const void* before, unsigned size);
// A strong read of `size` bytes at a host address; true if it returns the older value, which is put into `value`.
bool recall(Warp& w, const Access& a, int lane, uint64_t address, void* value, unsigned size);

inline bool remembers(const Warp& w) { return w.block->order && w.block->launch->function->reads_messages; }

}  // namespace ptx
