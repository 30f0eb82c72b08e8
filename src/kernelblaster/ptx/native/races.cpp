// Tags of memory: compared and replaced at every access. What orders accesses is in order.cpp.
#include "copies.h"
#include "tags.h"

#include <sched.h>

#include <utility>

namespace ptx {

void suspect(Warp& w, const Access& a, unsigned size, Effect effect, int lane, uint64_t tag, uint32_t at, bool wrote) {
  Order& o = *w.block->order;
  if (w.block->suspects >> lane & 1) return;
  Order::Conflict& c = o.conflicts[lane];
  c.tag = tag;
  c.at = at;
  c.wrote = wrote;
  if (!a.read_only && o.orders(w, lane, c, a, effect)) return;
  w.block->suspects |= 1u << lane;
  const Block& home = a.owner ? *a.owner : *w.block;
  uint64_t host = a.space == Space::Shared ? a.at[lane] + (uint64_t)home.shared : a.at[lane];
  if (effect != Effect::Load) memcpy(c.before, (const void*)host, std::min<size_t>(size, sizeof c.before));
}

namespace {

constexpr int kMostFound = 256;

// Blocks run on several threads; a lock for each page of memory keeps comparing and replacing together.
struct alignas(64) Spin {
  std::atomic_flag held = ATOMIC_FLAG_INIT;
};
Spin spins[256];

class PageLock {
 public:
  void take(uint64_t page) {
    Spin* wanted = &spins[page & 255];
    if (wanted == held_) return;
    release();
    for (int tries = 0; wanted->held.test_and_set(std::memory_order_acquire);)
      if (++tries % 64 == 0) sched_yield();
    held_ = wanted;
  }
  void release() {
    if (held_) held_->held.clear(std::memory_order_release);
    held_ = nullptr;
  }
  ~PageLock() { release(); }

 private:
  Spin* held_ = nullptr;
};

// The cells of one lane, or of several that lie one after another, `1 << shift` each, from `start` on.
struct Cells {
  uint64_t first, end, start;
  int lane, shift;
  uint32_t lane_of(uint64_t cell) const { return (uint32_t)lane + (uint32_t)((cell - start) >> shift); }
};

[[gnu::noinline]] void examine(Warp& w, const Access& a, unsigned size, Effect effect, const Toucher& t, const Shadow& s,
                               const Cells& cells) {
  for (uint64_t c = cells.first; c < cells.end; ++c) {
    int lane = (int)cells.lane_of(c);
    if (!harmless(t, s.wrote[c], t.writes) && !own_write(t, s.wrote[c], s.wrote_at[c], (uint32_t)lane))
      suspect(w, a, size, effect, lane, s.wrote[c], s.wrote_at[c], true);
    if (effect != Effect::Load && !harmless(t, s.read[c], t.reads) && !own_read(t, s.read[c], s.read_at[c], (uint32_t)lane))
      suspect(w, a, size, effect, lane, s.read[c], s.read_at[c], false);
  }
}

// The same for lanes that touch again what only they have touched: common, and quickly told.
template <bool store>
inline bool all_own(const Toucher& t, const Shadow& s, const Cells& cells) {
  uint64_t own = 1;
  for (uint64_t c = cells.first; c < cells.end; ++c) {
    const uint32_t lane = cells.lane_of(c);
    own &= (uint64_t)(harmless(t, s.wrote[c], t.writes) | own_write(t, s.wrote[c], s.wrote_at[c], lane));
    if (store) own &= (uint64_t)(harmless(t, s.read[c], t.reads) | own_read(t, s.read[c], s.read_at[c], lane));
  }
  return own;
}

template <bool store>
inline void compare(Warp& w, const Access& a, unsigned size, Effect effect, const Toucher& t, const Shadow& s,
                    const Cells& cells) {
  uint64_t clean = 1;
  for (uint64_t c = cells.first; c < cells.end; ++c) {
    clean &= (uint64_t)harmless(t, s.wrote[c], t.writes);
    if (store) clean &= (uint64_t)harmless(t, s.read[c], t.reads);
  }
  if (!clean && !all_own<store>(t, s, cells)) examine(w, a, size, effect, t, s, cells);
}

template <bool store>
inline void replace(const Toucher& t, const Shadow& s, const Cells& cells) {
  if (store) {
    for (uint64_t c = cells.first; c < cells.end; ++c) s.wrote[c] = t.tag;
    for (uint64_t c = cells.first; c < cells.end; ++c) s.wrote_at[c] = t.at | cells.lane_of(c);
  } else {
    for (uint64_t c = cells.first; c < cells.end; ++c) s.read_at[c] = reader_after(t, s.read[c], s.read_at[c], cells.lane_of(c));
    for (uint64_t c = cells.first; c < cells.end; ++c) s.read[c] = after_read(t, s.read[c]);
  }
}

// One lane's cells. As above, but there are few: branches are quicker than computing everything.
template <bool store>
inline void compare_few(Warp& w, const Access& a, unsigned size, Effect effect, const Toucher& t, const Shadow& s,
                        const Cells& cells) {
  for (uint64_t c = cells.first; c < cells.end; ++c)
    if (!harmless(t, s.wrote[c], t.writes) || (store && !harmless(t, s.read[c], t.reads)))
      return examine(w, a, size, effect, t, s, cells);
}

template <bool store>
inline void replace_few(const Toucher& t, const Shadow& s, const Cells& cells) {
  if (store) return replace<true>(t, s, cells);
  for (uint64_t c = cells.first; c < cells.end; ++c) {
    const uint64_t tag = s.read[c];
    if (tag == t.tag || past(t, tag)) {
      const uint32_t others = tag == t.tag && (s.read_at[c] ^ (uint32_t)cells.lane) & (kLane | kManyLanes) ? kManyLanes : 0;
      s.read[c] = t.tag;
      s.read_at[c] = t.at | (uint32_t)cells.lane | others;
    } else {
      s.read_at[c] = reader_after(t, tag, s.read_at[c], (uint32_t)cells.lane);
      s.read[c] = after_read(t, tag);
    }
  }
}

template <bool locked, bool store>
void watch(Warp& w, const Access& a, unsigned size, Effect effect, const Shadow& s) {
  if (w.block->launch->messages->found.load(std::memory_order_relaxed) > kMostFound) return;
  Toucher t = toucher(w, a, effect);
  w.block->order->lanes[w.index].touched = true;
  const int grain = w.block->launch->grain, page = 12 - grain;
  PageLock lock;
  auto cell = [&](uint64_t address) { return (address >> grain) - s.first; };
  if (a.contiguous(size) && !(size & (size - 1)) && size >> grain) {
    uint64_t start = cell(a.low), last = cell(a.high + size - 1) + 1;
    for (uint64_t c = start; c < last;) {
      uint64_t end = locked ? std::min(last, ((((s.first + c) >> page) + 1) << page) - s.first) : last;
      if (locked) lock.take((s.first + c) >> page);
      const Cells cells{c, end, start, 0, __builtin_ctz(size >> grain)};
      compare<store>(w, a, size, effect, a.read_only ? strict(t) : t, s, cells);
      replace<store>(t, s, cells);
      c = end;
    }
    return;
  }
  // Lanes that store to one place in one instruction are compared with what was there before (report_collision
  // looks at their values), so all of them before any tag is replaced.
  const bool apart = !store || effect == Effect::Atomic || a.apart(size);
  uint32_t same = 0;   // lanes that access what the one before them does; inactive lanes have its address
  for (int l = 1; l < kLanes; ++l) same |= (uint32_t)(a.at[l] == a.at[l - 1]) << l;
  same &= a.lanes & ~(1u << a.first());
  const uint32_t line = t.at;
  auto each_place = [&](auto body) {
    each_lane(a.lanes & ~same, [&](int l) {
      uint64_t first = cell(a.at[l]), end = cell(a.at[l] + size - 1) + 1;
      if (locked) lock.take((s.first + first) >> page);   // aligned accesses lie in one page
      const uint32_t rest = a.lanes & ~((2u << l) - 1);
      t.at = line | (uint32_t)((same & rest & -rest) != 0) << 31;
      body(Cells{first, end, first, l, 31});
    });
  };
  each_place([&](const Cells& cells) {
    compare_few<store>(w, a, size, effect, a.read_only ? strict(t) : t, s, cells);
    if (apart) replace_few<store>(t, s, cells);
  });
  if (!apart) each_place([&](const Cells& cells) { replace_few<store>(t, s, cells); });
}

std::string thread_text(const Launch& launch, uint32_t at) {
  uint32_t t = at & 1023, x = launch.block[0], y = launch.block[1];
  return text("thread (%u, %u, %u)", t % x, t / x % y, t / x / y);
}

std::string place(const Warp& w, Space space, uint64_t address) {
  if (space == Space::Shared) {
    for (const auto& [name, variable] : w.block->launch->function->variables)
      if (const uint64_t start = kReservedShared + variable.address; variable.space == Space::Shared && address >= start &&
          (variable.dynamic || address - start < variable.bytes))
        return text(" (byte %llu of '%s')", (unsigned long long)(address - start), name.c_str());
    return "";
  }
  const Allocation* found = w.block->launch->memory->find(address);
  if (!found) return "";
  return text(" (byte %llu of allocation '%s')", (unsigned long long)(address - found->start), found->name.c_str());
}

std::string other_side(const Warp& w, const Order::Conflict& c, int lane) {
  const Launch& launch = *w.block->launch;
  std::string what = text("%s at line %u by ", c.wrote ? "a write" : "a read", line_of(c.at));
  uint32_t serial = (uint32_t)(c.tag >> 32);
  if (serial < launch.messages->first_serial)
    return text("%s at line %u of the launch before, ", c.wrote ? "a write" : "a read", line_of(c.at)) + launch.before;
  if (serial == w.block->order->serial && (int)(c.tag & 63) == w.index && (int)(c.at & 31) == lane && !(c.at >> 31))
    return what + "the same thread";
  if (serial == w.block->order->serial && (int)(c.tag & 63) == w.index)
    return what + thread_text(launch, c.at) + " of the same warp";
  if (serial == w.block->order->serial) return what + thread_text(launch, c.at) + " of the same block";
  if (serial == launch.messages->last_serial) return what + thread_text(launch, c.at) + " of another block";
  uint32_t b = serial - launch.messages->first_serial, x = launch.grid[0], y = launch.grid[1];
  return what + thread_text(launch, c.at) + text(" of block (%u, %u, %u)", b % x, b / x % y, b / x / y);
}

}  // namespace

void watch_shared(Warp& w, const Access& a, unsigned size, Effect effect) {
  const Shadow& shadow = w.block->order->shared;
  if (effect != Effect::Load && !w.block->order->readers.empty()) check_readers(w, a, size, effect, *w.block->order);
  effect == Effect::Load ? watch<false, false>(w, a, size, effect, shadow) : watch<false, true>(w, a, size, effect, shadow);
}

void watch_global(Warp& w, const Access& a, unsigned size, Effect effect, const Shadow& shadow) {
  effect == Effect::Load ? watch<true, false>(w, a, size, effect, shadow) : watch<true, true>(w, a, size, effect, shadow);
}

// To read what another block wrote, with some message between them that does not carry it, is a matter of memory
// order rather than of a missing one.
static const char* kind_of(const Warp& w, const Order::Conflict& c, const Access& a, Effect effect) {
  const uint32_t serial = (uint32_t)(c.tag >> 32);
  if (serial < w.block->launch->messages->first_serial) return "dependent-launch";
  if (a.read_only) return "read-only";
  const bool acquired = serial != w.block->order->serial && w.block->order->warps[w.index].acquired;
  return acquired && c.wrote && effect == Effect::Load ? "memory-order" : "race";
}

static void report(Warp& w, const Access& a, unsigned size, Effect effect, int lane) {
  const Block& home = a.owner ? *a.owner : *w.block;
  const Space space = a.space == Space::Cluster ? Space::Shared : a.space;
  uint64_t address = a.space == Space::Cluster ? cluster_address(w, a.at[lane]) & kOffset
                     : a.space == Space::Shared ? a.at[lane] - (uint64_t)home.shared : a.at[lane];
  w.block->launch->messages->found += 1;
  const Order::Conflict& c = w.block->order->conflicts[lane];
  const char* kind = kind_of(w, c, a, effect);
  const char* why = *kind == 'd' ? ": this kernel may start before that has ended, and there was no griddepcontrol.wait"
                    : !strcmp(kind, "read-only") ? ": a load through the read-only cache (ld.global.nc, __ldg) sees no writes of "
                                                   "its own launch"
                    : *kind == 'm' ? ": this block has read an atomic or volatile variable since, but behind the write there "
                                     "was no fence, or none behind that read, or what was read is not what was published"
                                   : ": nothing orders them";
  w.note(kind, describe(effect, size, name_of(space), address) + place(w, space, address) + ", and " +
         other_side(w, c, lane) + why, lane);
}

void report_suspects(Warp& w, const Access& a, unsigned size, Effect effect) {
  uint32_t guilty = 0;
  each_lane(w.block->suspects, [&](int l) {
    const uint8_t* before = w.block->order->conflicts[l].before;
    bool changed = effect == Effect::Load || memcmp(before, (const void*)a.at[l], std::min(size, 32u));
    guilty |= (uint32_t)changed << l;
  });
  w.block->suspects = 0;
  if (guilty) report(w, a, size, effect, __builtin_ctz(guilty));
}

void watch_span(Warp& w, int lane, Allocation* allocation, uint64_t address, unsigned bytes, Effect effect) {
  if (!w.block->order) return;
  Access a;
  a.lanes = 1u << lane;
  a.at[lane] = address;
  a.space = allocation ? Space::Global : Space::Shared;
  settle(a);
  Launch& launch = *w.block->launch;
  if (allocation) watch_global(w, a, bytes, effect, shadow_of(*launch.memory, *allocation, launch.grain));
  else watch_shared(w, a, bytes, effect);
  uint32_t suspects = w.block->suspects;
  w.block->suspects = 0;
  if (!allocation) a.at[lane] += (uint64_t)w.block->shared;
  if (suspects) report(w, a, bytes, effect, lane);
}

void visit_span(Warp& w, const SharedPlace& at, int lane, unsigned bytes, Effect effect, bool copy) {
  Access a;
  a.lanes = 1u << lane;
  a.at[lane] = at.offset;
  a.space = Space::Shared;
  a.owner = at.block;
  settle(a);
  watch_visit(w, a, bytes, effect, copy);
  a.at[lane] += (uint64_t)at.block->shared;
  if (std::exchange(w.block->suspects, 0)) report(w, a, bytes, effect, lane);
}

void tag_write(const Copy& copy) {
  Order* o = copy.block->order;
  if (!o || copy.issuer->block != copy.block) return;
  const int grain = copy.block->launch->grain;
  const uint64_t first = copy.offset >> grain, end = ((copy.offset + copy.bytes - 1) >> grain) + 1;
  const Warp& w = *copy.issuer;
  for (uint64_t c = first; c < end; ++c) {
    o->shared.wrote[c] = (uint64_t)o->serial << 32 | (uint64_t)o->now << kTimeShift | (uint64_t)w.index;
    o->shared.wrote_at[c] = (copy.line & kLines) << 10 | (uint32_t)w.index << 5 | (uint32_t)copy.lane;
  }
  o->lanes[w.index].touched = true;
}

uint32_t unfenced_store(const Order& o, const uint8_t* written, uint64_t offset, uint64_t bytes, int grain) {
  for (uint64_t c = offset >> grain; c <= (offset + bytes - 1) >> grain; ++c) {
    const uint64_t tag = o.shared.wrote[c];
    if (written[c << grain] != kByThread || (uint32_t)(tag >> 32) != o.serial) continue;
    if ((uint32_t)tag >> kTimeShift > o.proxy_fenced) return std::max(line_of(o.shared.wrote_at[c]), 1u);
  }
  return 0;
}

void report_collision(Warp& w, const Access& a, unsigned size, int lane) {
  uint32_t others = 0;
  each_lane(a.lanes & ~(1u << lane), [&](int l) {
    others |= (uint32_t)(a.at[l] < a.at[lane] + size && a.at[lane] < a.at[l] + size) << l;
  });
  if (!others) return;   // another block wrote there meanwhile
  uint64_t address = a.space == Space::Shared ? a.at[lane] - (uint64_t)w.block->shared : a.at[lane];
  uint32_t other = (uint32_t)(w.index << 5 | __builtin_ctz(others));
  w.note("race", describe(Effect::Store, size, name_of(a.space), address) + place(w, a.space, address) + ", where " +
         thread_text(*w.block->launch, other) + " stores another value in the same instruction", lane);
}

}  // namespace ptx
