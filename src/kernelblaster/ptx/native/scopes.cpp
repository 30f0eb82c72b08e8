// Scopes: an atomic for threads of one block (atomicAdd_block, .cta) is none for the others.
#include "races.h"

namespace ptx {

void check_scope(Warp& w, const Access& a, unsigned size, bool in_block) {
  Messages& m = *w.block->launch->messages;
  if (a.space != Space::Global || (!in_block && !m.scoped)) return;
  const uint32_t serial = w.block->order->serial;
  uint32_t wrong = 0;
  {
    std::lock_guard<std::mutex> hold(m.lock);
    m.scoped = true;
    each_lane(a.lanes, [&](int lane) {
      auto found = m.in_block.find(a.at[lane] >> 2);
      if (found != m.in_block.end() && found->second != serial) wrong |= 1u << lane;
      if (in_block) m.in_block.emplace(a.at[lane] >> 2, serial);
    });
  }
  if (!wrong) return;
  const int lane = __builtin_ctz(wrong);
  w.note("race", describe(Effect::Atomic, size, "global", a.at[lane]) + ", which several blocks access, one of them with the "
         "scope of a single block (.cta)", lane);
}

}  // namespace ptx
