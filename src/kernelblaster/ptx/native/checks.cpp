// Checks: from addresses of a space to host pointers, or a finding that says why not.
#include "copies.h"
#include "races.h"

#include <cstdarg>
#include <cstdio>

namespace ptx {

std::string text(const char* format, ...) {
  char buffer[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  return buffer;
}

std::string describe(Effect effect, unsigned size, const char* space, uint64_t address) {
  const char* verb = effect == Effect::Load ? "load from" : effect == Effect::Store ? "store to" : "atomic on";
  return text("%u-byte %s %s address 0x%llx", size, verb, space, (unsigned long long)address);
}

const char* name_of(Space space) {
  const char* names[] = {"generic", "global", "shared", "local", "const", "param", "cluster"};
  return names[(int)space];
}

namespace {

// Shared, local and param memory are windows of known size.
[[noreturn]] void beyond(Warp& w, const Access& a, unsigned size, uint64_t bytes, Effect effect) {
  uint32_t wrong = 0;
  const uint64_t start = a.space == Space::Shared ? kReservedShared : 0;
  each_lane(a.lanes, [&](int l) { wrong |= (uint32_t)(bytes < size || a.at[l] < start || a.at[l] > bytes - size) << l; });
  int lane = __builtin_ctz(wrong);
  w.fault("out-of-bounds", describe(effect, size, name_of(a.space), a.at[lane]) +
          text(", but there are %llu bytes of %s memory", (unsigned long long)(bytes - start), name_of(a.space)) +
          (start ? " from 0x400 on" : ""), lane);
}

// Which allocation a global address is in, past, or before. Sets `freed` if it is in a freed one.
std::string neighbourhood(Memory& memory, uint64_t address, bool& freed) {
  std::lock_guard<std::mutex> hold(memory.lock);
  auto after = memory.live.upper_bound(address);
  const Allocation* before = after == memory.live.begin() ? nullptr : &std::prev(after)->second;
  const Allocation* next = after == memory.live.end() ? nullptr : &after->second;
  if (!before && !next) return ": nothing is allocated";
  uint64_t within = before ? address - before->start : 0, past = before ? within - std::min(before->bytes, within) : 0;
  const Allocation* nearest = before && (!next || past <= next->start - address) ? before : next;
  std::string range = text("%s '%s' (0x%llx, %llu bytes)", nearest->freed ? "freed allocation" : "allocation",
                           nearest->name.substr(0, 200).c_str(), (unsigned long long)nearest->start,
                           (unsigned long long)nearest->bytes);
  if (nearest == next) return text(": %llu bytes before ", (unsigned long long)(next->start - address)) + range;
  if (within >= before->bytes) return text(": %llu bytes past the end of ", (unsigned long long)past) + range;
  freed = before->freed;
  return text(": at byte %llu of ", (unsigned long long)within) + range;
}

[[noreturn]] void outside(Warp& w, uint64_t address, unsigned size, Space space, Effect effect, int lane) {
  bool freed = false;
  std::string where = neighbourhood(*w.block->launch->memory, address, freed);
  w.fault(freed ? "use-after-free" : "out-of-bounds", describe(effect, size, name_of(space), address) + where, lane);
}

[[noreturn]] void misaligned(Warp& w, const Access& a, unsigned size, unsigned align, Effect effect) {
  uint32_t wrong = 0;
  each_lane(a.lanes, [&](int l) { wrong |= (uint32_t)((a.at[l] & (align - 1)) != 0) << l; });
  int lane = __builtin_ctz(wrong);
  bool freed = false, global = a.space == Space::Global || a.space == Space::Const;
  w.fault("misaligned", describe(effect, size, name_of(a.space), a.at[lane]) +
          text(", which is not a multiple of %u", align) +
          (global ? neighbourhood(*w.block->launch->memory, a.at[lane], freed) : ""), lane);
}

// What a thread remembers of Memory: the last allocation that each instruction used (by its place in the
// code). It outlives warps, most of which execute an instruction only a few times.
struct Range {
  uint64_t start = 1, end = 0;      // empty
  const Allocation* allocation = nullptr;
  uint8_t* written = nullptr;       // null: not tracked
  Shadow shadow;                    // only while races are checked
};
struct Remembered {
  uint64_t generation = 0;
  const Memory* memory = nullptr;
  uint32_t launch = 0;              // whose races are checked
  Range ranges[16];
};
thread_local Remembered remembered;

// The allocation that holds [low, high + size), or null.
const Range* holder(Warp& w, uint64_t low, uint64_t high, unsigned size) {
  Memory* memory = w.block->launch->memory;
  Remembered& r = remembered;
  uint64_t now = generation.load(std::memory_order_acquire);
  // An empty Memory never told anyone of its birth; it may be where a dead one was.
  const Messages* messages = w.block->launch->messages;
  uint32_t launch = messages ? messages->first_serial : 0;
  if (r.generation != now || r.memory != memory || r.launch != launch || memory->live.empty()) {
    r = Remembered();
    r.generation = now;
    r.memory = memory;
    r.launch = launch;
  }
  Range& range = r.ranges[w.pc & 15];
  auto holds = [&] { return low >= range.start && range.end - range.start >= size && high <= range.end - size; };
  if (range.allocation && holds()) return &range;
  Allocation* found = memory->find(low);
  if (!found) return nullptr;
  range = {found->start, found->start + found->bytes, found, found->written.empty() ? nullptr : found->written.data(),
           messages ? shadow_of(*memory, *found, w.block->launch->grain) : Shadow()};
  return holds() ? &range : nullptr;
}

void track_range(Warp& w, const Access& a, unsigned size, const Range& r, Effect effect) {
  if (effect != Effect::Load && r.allocation->read_only)
    w.fault("input-modified", describe(effect, size, "global", a.at[a.first()]) + ", which is in " + r.allocation->name +
            ": inputs and parameters may only be read", a.first());
  if (w.block->order && a.space == Space::Global) watch_global(w, a, size, effect, r.shadow);
  if (r.written) track(w, a, size, (uint64_t)r.written - r.start, &r.allocation->name, r.start, effect);
}

}  // namespace

void check_global(Warp& w, Access& a, unsigned size, unsigned align, Effect effect) {
  if (a.bits & (align - 1)) misaligned(w, a, size, align, effect);
  if (const Range* r = holder(w, a.low, a.high, size)) {
    track_range(w, a, size, *r, effect);
  } else {
    each_lane(a.lanes, [&](int l) {
      const Range* own = holder(w, a.at[l], a.at[l], size);
      if (!own) outside(w, a.at[l], size, a.space, effect, l);
      Access one;
      one.at[l] = a.at[l];
      one.lanes = 1u << l;
      one.space = a.space;
      one.strong = a.strong;
      one.is_volatile = a.is_volatile;
      one.read_only = a.read_only;
      one.deep = a.deep;
      settle(one);
      track_range(w, one, size, *own, effect);
    });
  }
  if (a.space == Space::Global) count_global(w, a, size, effect);
}

void check_shared(Warp& w, Access& a, unsigned size, unsigned align, Effect effect) {
  Block& block = *w.block;
  if (a.bits & (align - 1)) misaligned(w, a, size, align, effect);
  if (block.shared_bytes < size || a.low < kReservedShared || a.high > block.shared_bytes - size) beyond(w, a, size, block.shared_bytes, effect);
  if (block.under_way) check_awaited(w, block, a, size, effect);
  if (block.order) watch_shared(w, a, size, effect);
  if (!block.shared_written.empty()) track(w, a, size, (uint64_t)block.shared_written.data(), nullptr, 0, effect);
  count_shared(w, a, size, effect);
  uint64_t base = (uint64_t)block.shared;
  for (int l = 0; l < kLanes; ++l) a.at[l] += base;
}

static void check_local(Warp& w, Access& a, unsigned size, unsigned align, Effect effect) {
  uint64_t bytes = local_window(w, 0).bytes, base = (uint64_t)w.local;
  if (effect == Effect::Atomic)
    w.fault("invalid-address", describe(effect, size, "local", a.at[a.first()]) + ", which has no atomics", a.first());
  if (a.bits & (align - 1)) misaligned(w, a, size, align, effect);
  if (bytes < size || a.high > bytes - size) beyond(w, a, size, bytes, effect);
  count_local(w, a, size);
  track_local(w, a, size, effect);
  for (int l = 0; l < kLanes; ++l) a.at[l] += base + (uint64_t)l * bytes;
  a.affine = false;
}

static void check_param(Warp& w, Access& a, unsigned size, unsigned align, Effect effect) {
  const std::vector<uint8_t>& parameters = w.block->launch->parameters;
  uint64_t base = (uint64_t)parameters.data();
  for (int l = 0; l < kLanes; ++l)     // a parameter's address may have been taken as a pointer
    if (a.at[l] - base < parameters.size()) a.at[l] -= base;
  settle(a);
  if (effect != Effect::Load)
    w.fault("invalid-address", describe(effect, size, "param", a.at[a.first()]) + ", which is constant", a.first());
  if (a.bits & (align - 1)) misaligned(w, a, size, align, effect);
  if (parameters.size() < size || a.high > parameters.size() - size) beyond(w, a, size, parameters.size(), effect);
  for (int l = 0; l < kLanes; ++l) a.at[l] += base;
}

void check(Warp& w, Access& a, unsigned size, unsigned align, Effect effect) {
  switch (a.space) {
    case Space::Shared: return check_shared(w, a, size, align, effect);
    case Space::Local: return check_local(w, a, size, align, effect);
    case Space::Param: return check_param(w, a, size, align, effect);
    case Space::Cluster: return check_cluster(w, a, size, align, effect);
    default: return check_global(w, a, size, align, effect);
  }
}

}  // namespace ptx
