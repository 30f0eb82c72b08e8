// Memory instructions: loads, stores, atomics, asynchronous copies and address conversion.
//
//   operand -> Access (an address for each lane) -> place -> checks, flags, counts -> host pointers -> data
//
// Every instruction goes through the same steps, so that none can reach memory unchecked; only the last
// one, moving the data, differs. Inactive lanes take the address of the active lane before them: checks and
// counts may then look at all 32 lanes without masks. One file, because the steps share Access.
#include "machine.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <numeric>

namespace ptx {

// ---- Memory ---------------------------------------------------------------------------------------------

// Changes whenever any allocation does: tells threads that what they remember of Memory is stale.
static std::atomic<uint64_t> generation{1};

void Memory::add(uint64_t start, uint64_t bytes, const std::string& name, bool tracked) {
  std::lock_guard<std::mutex> hold(lock);
  // The host allocator reuses addresses: freed ranges under the new one are history.
  auto it = live.upper_bound(start);
  if (it != live.begin()) --it;
  while (it != live.end() && it->first < start + std::max<uint64_t>(bytes, 1)) {
    bool overlaps = it->first + std::max<uint64_t>(it->second.bytes, 1) > start;
    it = overlaps && it->second.freed ? live.erase(it) : std::next(it);
  }
  Allocation& added = live[start];
  added.start = start;
  added.bytes = bytes;
  added.name = name;
  added.freed = false;
  added.written.assign(tracked ? bytes : 0, 0);
  ++generation;
}

// Freed allocations stay in `live`, marked, so that a later use can be named.
bool Memory::remove(uint64_t start) {
  std::lock_guard<std::mutex> hold(lock);
  auto it = live.find(start);
  if (it == live.end() || it->second.freed) return false;
  it->second.freed = true;
  std::vector<uint8_t>().swap(it->second.written);
  ++generation;
  return true;
}

Allocation* Memory::find(uint64_t address) {
  std::lock_guard<std::mutex> hold(lock);
  auto it = live.upper_bound(address);
  if (it == live.begin()) return nullptr;
  Allocation& found = std::prev(it)->second;
  return !found.freed && address - found.start < found.bytes ? &found : nullptr;
}

namespace {

// ---- Addresses of a warp ----------------------------------------------------------------------------------

enum class Effect : uint8_t { Load, Store, Atomic };
enum class Base : uint8_t { Absolute, Bits32, Bits64 };

struct Access {
  alignas(64) uint64_t at[kLanes];
  uint32_t lanes = 0;               // those that really access memory
  Space space = Space::Global;      // where, never Generic
  uint64_t low, high, bits;         // least and greatest address; all addresses or-ed
  int64_t stride;                   // between lanes, if affine
  bool affine;
  int first() const { return __builtin_ctz(lanes); }
  bool contiguous(unsigned size) const { return affine && stride == (int64_t)size && lanes == kAllLanes; }
};

// Fills the lanes that do not take part, and summarizes.
void settle(Access& a) {
  if (a.lanes != kAllLanes) {
    uint64_t last = a.at[a.first()];
    for (int l = 0; l < kLanes; ++l) a.at[l] = last = a.lanes >> l & 1 ? a.at[l] : last;
  }
  uint64_t start = a.at[0], stride = a.at[1] - a.at[0], odd = 0;
  for (int l = 0; l < kLanes - 1; ++l) odd |= (a.at[l + 1] - a.at[l]) ^ stride;
  a.stride = (int64_t)stride;
  a.affine = odd == 0 && a.stride < (1ll << 32) && a.stride > -(1ll << 32);
  a.low = std::min(start, a.at[kLanes - 1]);
  a.high = std::max(start, a.at[kLanes - 1]);
  a.bits = start | stride;
  if (a.affine && a.high - a.low < (1ll << 40)) return;   // it does not wrap around: the ends tell all
  a.affine = false;
  uint64_t low = start, high = start, bits = 0;
  for (int l = 0; l < kLanes; ++l) {
    low = std::min(low, a.at[l]);
    high = std::max(high, a.at[l]);
    bits |= a.at[l];
  }
  a.low = low;
  a.high = high;
  a.bits = bits;
}

// Where an address operand lives in an Inst: its offset and slot are imm[k], imm[k + 1], its base flag[k].
void read_addresses(Warp& w, const Inst& i, int k, Access& a) {
  uint64_t offset = (uint64_t)i.imm[k];
  switch ((Base)i.flag[k]) {
    case Base::Absolute:
      for (int l = 0; l < kLanes; ++l) a.at[l] = offset;
      break;
    case Base::Bits32: {            // wraps around, as 32-bit address arithmetic does
      const uint32_t* base = w.reg((int)i.imm[k + 1]).u32;
      for (int l = 0; l < kLanes; ++l) a.at[l] = base[l] + (uint32_t)offset;
      break;
    }
    case Base::Bits64: {
      const uint64_t* base = w.reg((int)i.imm[k + 1]).u64;
      for (int l = 0; l < kLanes; ++l) a.at[l] = base[l] + offset;
    }
  }
}

// ---- Findings ---------------------------------------------------------------------------------------------

std::string text(const char* format, ...) __attribute__((format(printf, 1, 2)));
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
  const char* names[] = {"generic", "global", "shared", "local", "const", "param"};
  return names[(int)space];
}

// Shared, local and param memory are windows of known size.
[[noreturn]] void beyond(Warp& w, const Access& a, unsigned size, uint64_t bytes, Effect effect) {
  uint32_t wrong = 0;
  each_lane(a.lanes, [&](int l) { wrong |= (uint32_t)(bytes < size || a.at[l] > bytes - size) << l; });
  int lane = __builtin_ctz(wrong);
  w.fault("out-of-bounds", describe(effect, size, name_of(a.space), a.at[lane]) +
          text(", but there are %llu bytes of %s memory", (unsigned long long)bytes, name_of(a.space)), lane);
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

// ---- Flags of written bytes -------------------------------------------------------------------------------

template <typename T>
T read(uint64_t address) {
  T value;
  memcpy(&value, (const void*)address, sizeof value);
  return value;
}
template <typename T>
void write(uint64_t address, T value) {
  memcpy((void*)address, &value, sizeof value);
}

bool all_written(uint64_t flags, unsigned size) {
  constexpr uint64_t ones = 0x0101010101010101ull;
  auto whole = [](uint64_t v) { return ((v - ones) & ~v & (ones << 7)) == 0; };
  switch (size) {
    case 2: return whole(read<uint16_t>(flags) | ones << 16);
    case 4: return whole(read<uint32_t>(flags) | ones << 32);
    case 8: return whole(read<uint64_t>(flags));
    case 16: return whole(read<uint64_t>(flags)) && whole(read<uint64_t>(flags + 8));
    default: return !memchr((const void*)flags, 0, size);
  }
}

void set_written(uint64_t flags, unsigned size) {
  constexpr uint64_t ones = 0x0101010101010101ull;
  switch (size) {
    case 2: return write<uint16_t>(flags, (uint16_t)ones);
    case 4: return write<uint32_t>(flags, (uint32_t)ones);
    case 8: return write<uint64_t>(flags, ones);
    default: memset((void*)flags, 1, size);
  }
}

// The flag of the byte at address x is at x + bias.
void track(Warp& w, const Access& a, unsigned size, uint64_t bias, const std::string* allocation, uint64_t start,
           Effect effect) {
  bool contiguous = a.contiguous(size);
  if (effect != Effect::Store) {
    bool complete = true;
    uint64_t span = a.high - a.low + size;
    bool whole = span <= 1024 && !memchr((const void*)(a.low + bias), 0, span);   // also what lies between lanes
    if (!whole) {
      for (int l = 0; l < kLanes; ++l) complete &= all_written(a.at[l] + bias, size);
    }
    if (!complete) {
      uint32_t missing = 0;
      each_lane(a.lanes, [&](int l) { missing |= (uint32_t)!all_written(a.at[l] + bias, size) << l; });
      int lane = __builtin_ctz(missing);
      std::string where = allocation ? text(" (byte %llu of allocation '%s')",
                                            (unsigned long long)(a.at[lane] - start), allocation->c_str()) : "";
      w.note("uninitialized", describe(effect, size, name_of(a.space), a.at[lane]) + where +
             ", which nothing has written", lane);
    }
  }
  if (effect != Effect::Load) {
    if (contiguous) memset((void*)(a.low + bias), 1, kLanes * size);
    else for (int l = 0; l < kLanes; ++l) set_written(a.at[l] + bias, size);
  }
}

// ---- Counts -----------------------------------------------------------------------------------------------

// Distinct values of address >> shift among 32 lanes. Warps mostly walk upwards, where neighbours tell.
int distinct(const uint64_t* at, int shift) {
  uint64_t unit[kLanes], falls = 0, steps = 1;
  for (int l = 0; l < kLanes; ++l) unit[l] = at[l] >> shift;
  for (int l = 1; l < kLanes; ++l) {
    falls |= unit[l] < unit[l - 1];
    steps += unit[l] != unit[l - 1];
  }
  if (!falls) return (int)steps;
  uint64_t table[64];
  std::fill(table, table + 64, ~0ull);   // no unit is ~0: units are addresses shifted right
  int count = 0;
  for (int l = 0; l < kLanes; ++l) {
    uint64_t value = unit[l], slot = value * 0x9e3779b97f4a7c15ull >> 58;
    while (table[slot] != ~0ull && table[slot] != value) slot = (slot + 1) & 63;
    count += table[slot] != value;
    table[slot] = value;
  }
  return count;
}

// An access is aligned to its size, at most 32 bytes: each lane touches one sector.
int sectors(const Access& a) {
  if (a.affine && a.stride <= 32 && a.stride >= -32) return (int)((a.high >> 5) - (a.low >> 5)) + 1;
  return a.affine ? kLanes : distinct(a.at, 5);
}

// Local memory interleaves the lanes: word k of 32 lanes is one line, so 8 lanes at one word are a sector.
int local_sectors(const Access& a, unsigned size) {
  int words = size <= 4 ? 1 : (int)size / 4, count = 0;
  for (int group = 0; group < kLanes; group += 8) {
    uint64_t seen[8];
    int different = 0;
    each_lane(a.lanes & (0xffu << group), [&](int l) {
      if (std::find(seen, seen + different, a.at[l] >> 2) == seen + different) seen[different++] = a.at[l] >> 2;
    });
    count += different * words;
  }
  return count;
}

// Wavefronts of a shared access: lanes go in groups that want at most 128 bytes; within a group each bank
// (as wide as the access, if that is wider than a word) serves one address a wavefront, to any number of lanes.
int wavefronts(const Access& a, unsigned size) {
  int shift = size <= 4 ? 2 : __builtin_ctz(size), group = 128 >> shift;
  if (a.contiguous(size)) return kLanes / group;
  if ((a.high >> shift) - (a.low >> shift) < (uint64_t)group) {   // no bank twice
    int groups = 0;
    for (int start = 0; start < kLanes; start += group)
      groups += (a.lanes & (uint32_t)(((1ull << group) - 1) << start)) != 0;
    return groups;
  }
  if (size == 4 && a.lanes == kAllLanes && a.affine)
    return a.stride == 0 ? 1 : (int)std::gcd(a.stride < 0 ? -(a.stride >> 2) : a.stride >> 2, (int64_t)kLanes);
  int total = 0;
  for (int start = 0; start < kLanes; start += group) {
    uint32_t lanes = a.lanes & (uint32_t)(((1ull << group) - 1) << start);
    uint32_t seen[kLanes][kLanes];
    uint8_t count[kLanes] = {0};
    int worst = 0;
    uint64_t last = ~0ull;
    each_lane(lanes, [&](int l) {
      uint64_t unit = a.at[l] >> shift;
      if (unit == last) return;
      last = unit;
      int bank = (int)(unit & (uint64_t)(group - 1));
      for (int k = 0; k < count[bank]; ++k)
        if (seen[bank][k] == (uint32_t)unit) return;
      seen[bank][count[bank]++] = (uint32_t)unit;
      worst = std::max<int>(worst, count[bank]);
    });
    total += worst;
  }
  return total;
}

void count_global(Warp& w, const Access& a, unsigned size, Effect effect) {
  uint64_t bytes = (uint64_t)__builtin_popcount(a.lanes) * size;
  Counts& c = w.counts;
  if (effect == Effect::Load) {
    c.global_load_requests += 1;
    c.global_load_sectors += sectors(a);
    c.global_load_bytes += bytes;
  } else if (effect == Effect::Store) {
    c.global_store_requests += 1;
    c.global_store_sectors += sectors(a);
    c.global_store_bytes += bytes;
  }
}

// ---- Checks: from addresses of a space to host pointers ---------------------------------------------------

// What a thread remembers of Memory: the last allocation that each instruction used (by its place in the
// code). It outlives warps, most of which execute an instruction only a few times.
struct Range {
  uint64_t start = 1, end = 0;      // empty
  const Allocation* allocation = nullptr;
  uint8_t* written = nullptr;       // null: not tracked
};
struct Remembered {
  uint64_t generation = 0;
  const Memory* memory = nullptr;
  Range ranges[16];
};
thread_local Remembered remembered;

// The allocation that holds [low, high + size), or null.
const Range* holder(Warp& w, uint64_t low, uint64_t high, unsigned size) {
  Memory* memory = w.block->launch->memory;
  Remembered& r = remembered;
  uint64_t now = generation.load(std::memory_order_acquire);
  // An empty Memory never told anyone of its birth; it may be where a dead one was.
  if (r.generation != now || r.memory != memory || memory->live.empty()) {
    r = Remembered();
    r.generation = now;
    r.memory = memory;
  }
  Range& range = r.ranges[w.pc & 15];
  auto holds = [&] { return low >= range.start && range.end - range.start >= size && high <= range.end - size; };
  if (range.allocation && holds()) return &range;
  Allocation* found = memory->find(low);
  if (!found) return nullptr;
  range = {found->start, found->start + found->bytes, found, found->written.empty() ? nullptr : found->written.data()};
  return holds() ? &range : nullptr;
}

void track_range(Warp& w, const Access& a, unsigned size, const Range& r, Effect effect) {
  if (r.written) track(w, a, size, (uint64_t)r.written - r.start, &r.allocation->name, r.start, effect);
}

void check_global(Warp& w, Access& a, unsigned size, unsigned align, Effect effect) {
  if (a.bits & (align - 1)) misaligned(w, a, size, align, effect);
  if (const Range* r = holder(w, a.low, a.high, size)) {
    track_range(w, a, size, *r, effect);
  } else {
    each_lane(a.lanes, [&](int l) {
      const Range* own = holder(w, a.at[l], a.at[l], size);
      if (!own) outside(w, a.at[l], size, a.space, effect, l);
      if (!own->written) return;
      Access one;
      one.at[l] = a.at[l];
      one.lanes = 1u << l;
      one.space = a.space;
      settle(one);
      track_range(w, one, size, *own, effect);
    });
  }
  if (a.space == Space::Global) count_global(w, a, size, effect);
}

void check_shared(Warp& w, Access& a, unsigned size, unsigned align, Effect effect) {
  Block& block = *w.block;
  if (a.bits & (align - 1)) misaligned(w, a, size, align, effect);
  if (block.shared_bytes < size || a.high > block.shared_bytes - size) beyond(w, a, size, block.shared_bytes, effect);
  if (!block.shared_written.empty()) track(w, a, size, (uint64_t)block.shared_written.data(), nullptr, 0, effect);
  if (effect == Effect::Load) {
    w.counts.shared_load_requests += 1;
    w.counts.shared_load_wavefronts += wavefronts(a, size);
  } else if (effect == Effect::Store) {
    w.counts.shared_store_requests += 1;
    w.counts.shared_store_wavefronts += wavefronts(a, size);
  }
  uint64_t base = (uint64_t)block.shared;
  for (int l = 0; l < kLanes; ++l) a.at[l] += base;
}

void check_local(Warp& w, Access& a, unsigned size, unsigned align, Effect effect) {
  uint64_t bytes = w.function->local_bytes, base = (uint64_t)w.local;
  if (effect == Effect::Atomic)
    w.fault("invalid-address", describe(effect, size, "local", a.at[a.first()]) + ", which has no atomics", a.first());
  if (a.bits & (align - 1)) misaligned(w, a, size, align, effect);
  if (bytes < size || a.high > bytes - size) beyond(w, a, size, bytes, effect);
  w.counts.local_requests += 1;
  w.counts.local_sectors += local_sectors(a, size);
  for (int l = 0; l < kLanes; ++l) a.at[l] += base + (uint64_t)l * bytes;
  a.affine = false;
}

void check_param(Warp& w, Access& a, unsigned size, unsigned align, Effect effect) {
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
    default: return check_global(w, a, size, align, effect);
  }
}

struct Window {
  uint64_t start, bytes;
  bool holds(uint64_t address) const { return address - start < bytes; }
};
Window shared_window(const Warp& w) { return {(uint64_t)w.block->shared, w.block->shared_bytes}; }
Window param_window(const Warp& w) {
  const std::vector<uint8_t>& parameters = w.block->launch->parameters;
  return {(uint64_t)parameters.data(), parameters.size()};
}
Window local_window(const Warp& w, int lane) {
  uint64_t bytes = w.local ? w.function->local_bytes : 0;
  return {(uint64_t)w.local + (uint64_t)lane * bytes, bytes};
}

// Calls body(part) for the lanes of each space that generic addresses turn out to be in.
template <typename Body>
void split(Warp& w, const Access& a, Body body) {
  Window shared = shared_window(w), param = param_window(w);
  Space spaces[] = {Space::Global, Space::Shared, Space::Local, Space::Param};
  uint32_t lanes[4] = {0, 0, 0, 0};
  each_lane(a.lanes, [&](int l) {
    uint64_t address = a.at[l];
    int k = shared.holds(address) ? 1 : local_window(w, l).holds(address) ? 2 : param.holds(address) ? 3 : 0;
    lanes[k] |= 1u << l;
  });
  for (int k = 0; k < 4; ++k) {
    if (!lanes[k]) continue;
    Access part = a;
    part.lanes = lanes[k];
    part.space = spaces[k];
    each_lane(part.lanes, [&](int l) {
      if (k == 1) part.at[l] -= shared.start;
      if (k == 2) part.at[l] -= local_window(w, l).start;
    });
    settle(part);
    body(part);
  }
}

bool touches(const Access& a, uint64_t start, uint64_t bytes) {
  return bytes && a.high >= start && a.low < start + bytes;
}

// All steps but the last: calls move(access) with checked host pointers, once for each space concerned.
template <typename Move>
inline void reach(Warp& w, const Inst& i, Effect effect, Move move) {
  Access a;
  unsigned size = i.flag[2];
  a.lanes = w.active;
  a.space = (Space)i.flag[3];
  read_addresses(w, i, 0, a);
  settle(a);
  if (a.space == Space::Generic) {
    Window shared = shared_window(w), param = param_window(w), local = local_window(w, 0);
    if (touches(a, shared.start, shared.bytes) || touches(a, local.start, local.bytes * kLanes) ||
        touches(a, param.start, param.bytes)) {
      split(w, a, [&](Access& part) {
        check(w, part, size, size, effect);
        move(part);
      });
      return;
    }
    a.space = Space::Global;
  }
  check(w, a, size, size, effect);
  move(a);
}

// ---- Loads and stores -------------------------------------------------------------------------------------
// Inst: flag[2] bytes of all elements, flag[3] space, flag[4] number of elements; src[k] the k-th register.

template <typename D> D* lanes_of(Reg& r);
template <> uint32_t* lanes_of<uint32_t>(Reg& r) { return r.u32; }
template <> uint64_t* lanes_of<uint64_t>(Reg& r) { return r.u64; }

// The lanes' elements lie one after another: element k of n.
template <int n, typename T, typename D>
void unpack(const T* values, int k, D* d) {
  for (int l = 0; l < kLanes; ++l) d[l] = (D)values[l * n + k];
}

template <typename T, typename D>
void load(Warp& w, const Inst& i) {
  reach(w, i, Effect::Load, [&](const Access& a) {
    int n = i.flag[4];
    T values[4 * kLanes];
    bool block = n <= 4 && a.contiguous(n * sizeof(T));
    if (block) memcpy(values, (const void*)a.at[0], n * kLanes * sizeof(T));
    for (int k = 0; k < n; ++k) {
      if (i.src[k] < 0) continue;
      D* d = lanes_of<D>(w.reg(i.src[k]));
      uint64_t skip = k * sizeof(T);
      if (block) {
        n == 1 ? unpack<1>(values, k, d) : n == 2 ? unpack<2>(values, k, d) : unpack<4>(values, k, d);
      } else if (a.affine && a.stride == 0 && a.lanes == kAllLanes) {
        std::fill(d, d + kLanes, (D)read<T>(a.at[0] + skip));
      } else if (a.lanes == kAllLanes) {
        for (int l = 0; l < kLanes; ++l) d[l] = (D)read<T>(a.at[l] + skip);
      } else {
        each_lane(a.lanes, [&](int l) { d[l] = (D)read<T>(a.at[l] + skip); });
      }
    }
  });
}

template <typename T, typename D>
void store(Warp& w, const Inst& i) {
  reach(w, i, Effect::Store, [&](const Access& a) {
    int n = i.flag[4];
    for (int k = 0; k < n; ++k) {
      const D* s = lanes_of<D>(w.reg(i.src[k]));
      uint64_t skip = k * sizeof(T);
      if (a.contiguous(sizeof(T)) && n == 1) {
        T values[kLanes];
        for (int l = 0; l < kLanes; ++l) values[l] = (T)s[l];
        memcpy((void*)a.at[0], values, sizeof values);
      } else if (a.lanes == kAllLanes) {
        for (int l = 0; l < kLanes; ++l) write<T>(a.at[l] + skip, (T)s[l]);
      } else {
        each_lane(a.lanes, [&](int l) { write<T>(a.at[l] + skip, (T)s[l]); });
      }
    }
  });
}

// ---- Atomics ----------------------------------------------------------------------------------------------

// A block runs on one host thread, so only global memory needs the host's atomics.
template <typename T, T (*operation)(T old, T b, T c, bool global)>
void atomic(Warp& w, const Inst& i) {
  using D = typename std::conditional<sizeof(T) == 8, uint64_t, uint32_t>::type;
  w.counts.atomic_requests += 1;
  reach(w, i, Effect::Atomic, [&](const Access& a) {
    each_lane(a.lanes, [&](int l) {
      int n = i.flag[4];
      T old[4], b[4], c = i.src[4] < 0 ? T(0) : (T)lanes_of<D>(w.reg(i.src[4]))[l];
      for (int k = 0; k < n; ++k) b[k] = (T)lanes_of<D>(w.reg(i.src[k]))[l];
      for (int k = 0; k < n; ++k) {
        T* p = (T*)a.at[l] + k;
        if (a.space == Space::Shared) {
          old[k] = read<T>((uint64_t)p);
          write<T>((uint64_t)p, operation(old[k], b[k], c, false));
          continue;
        }
        old[k] = __atomic_load_n(p, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(p, &old[k], operation(old[k], b[k], c, true), true, __ATOMIC_SEQ_CST,
                                            __ATOMIC_RELAXED)) {}
      }
      for (int k = 0; k < n; ++k)
        if (i.dst[k] >= 0) lanes_of<D>(w.reg(i.dst[k]))[l] = old[k];
    });
  });
}

template <typename T> T exchange(T, T b, T, bool) { return b; }
template <typename T> T compare_and_swap(T old, T b, T c, bool) { return old == b ? c : old; }
template <typename T> T bit_and(T old, T b, T, bool) { return old & b; }
template <typename T> T bit_or(T old, T b, T, bool) { return old | b; }
template <typename T> T bit_xor(T old, T b, T, bool) { return old ^ b; }
template <typename T> T plus(T old, T b, T, bool) { return (T)(old + b); }
template <typename T> T least(T old, T b, T, bool) { return std::min(old, b); }
template <typename T> T greatest(T old, T b, T, bool) { return std::max(old, b); }
uint32_t increment(uint32_t old, uint32_t b, uint32_t, bool) { return old >= b ? 0 : old + 1; }
uint32_t decrement(uint32_t old, uint32_t b, uint32_t, bool) { return old == 0 || old > b ? b : old - 1; }

template <typename To, typename From>
To as(From from) {
  static_assert(sizeof(To) == sizeof(From), "same bits");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

uint32_t flushed(uint32_t bits) { return bits & 0x7f800000 ? bits : bits & 0x80000000; }

// In global memory, hardware's atomic addition of floats flushes subnormals; in shared memory it does not.
uint32_t plus_f32(uint32_t old, uint32_t b, uint32_t, bool global) {
  if (global) old = flushed(old), b = flushed(b);
  float sum = as<float>(old) + as<float>(b);
  uint32_t bits = sum != sum ? 0x7fffffff : as<uint32_t>(sum);
  return global ? flushed(bits) : bits;
}
uint64_t plus_f64(uint64_t old, uint64_t b, uint64_t, bool) { return as<uint64_t>(as<double>(old) + as<double>(b)); }

float widen_f16(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;
  if (exponent == 31) return as<float>(sign | 0x7f800000 | fraction << 13);
  if (exponent) return as<float>(sign | (exponent + 112) << 23 | fraction << 13);
  float small = (float)fraction * 0x1p-24f;
  return sign ? -small : small;
}
uint16_t narrow_f16(float f) {
  uint32_t bits = as<uint32_t>(f), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return 0x7fff;
  if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00);   // 65520 and above
  if (magnitude < 0x38800000) {      // subnormal: adding 0.5 leaves multiples of 2^-24 in the low bits, rounded
    return (uint16_t)(sign | (as<uint32_t>(as<float>(magnitude) + 0.5f) - 0x3f000000));
  }
  uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1) - 0x38000000;
  return (uint16_t)(sign | rounded >> 13);
}
float widen_bf16(uint16_t h) { return as<float>((uint32_t)h << 16); }
uint16_t narrow_bf16(float f) {
  uint32_t bits = as<uint32_t>(f);
  return f != f ? 0x7fff : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
// A float has enough digits that rounding the sum twice changes nothing (24 >= 2 * 11 + 2).
uint16_t plus_f16(uint16_t old, uint16_t b, uint16_t, bool) { return narrow_f16(widen_f16(old) + widen_f16(b)); }
uint16_t plus_bf16(uint16_t old, uint16_t b, uint16_t, bool) { return narrow_bf16(widen_bf16(old) + widen_bf16(b)); }
template <uint16_t (*add)(uint16_t, uint16_t, uint16_t, bool)>
uint32_t plus_pair(uint32_t old, uint32_t b, uint32_t, bool) {
  return (uint32_t)add((uint16_t)old, (uint16_t)b, 0, true) |
         (uint32_t)add((uint16_t)(old >> 16), (uint16_t)(b >> 16), 0, true) << 16;
}

Handler atomic_handler(const std::string& op, const std::string& type) {
  bool b32 = type == "b32", b64 = type == "b64", u32 = type == "u32", u64 = type == "u64";
  bool s32 = type == "s32", s64 = type == "s64";
  if (op == "add") {
    if (u32 || s32) return atomic<uint32_t, plus<uint32_t>>;
    if (u64 || s64) return atomic<uint64_t, plus<uint64_t>>;
    if (type == "f32") return atomic<uint32_t, plus_f32>;
    if (type == "f64") return atomic<uint64_t, plus_f64>;
    if (type == "f16") return atomic<uint16_t, plus_f16>;
    if (type == "bf16") return atomic<uint16_t, plus_bf16>;
    if (type == "f16x2") return atomic<uint32_t, plus_pair<plus_f16>>;
    if (type == "bf16x2") return atomic<uint32_t, plus_pair<plus_bf16>>;
  }
#define INTEGERS(name, function) \
  if (op == name) { \
    if (u32) return atomic<uint32_t, function<uint32_t>>; \
    if (s32) return atomic<int32_t, function<int32_t>>; \
    if (u64) return atomic<uint64_t, function<uint64_t>>; \
    if (s64) return atomic<int64_t, function<int64_t>>; \
  }
  INTEGERS("min", least)
  INTEGERS("max", greatest)
#undef INTEGERS
#define BITS(name, function) \
  if (op == name && (b32 || u32 || s32)) return atomic<uint32_t, function<uint32_t>>; \
  if (op == name && (b64 || u64 || s64)) return atomic<uint64_t, function<uint64_t>>;
  BITS("and", bit_and)
  BITS("or", bit_or)
  BITS("xor", bit_xor)
  BITS("exch", exchange)
  BITS("cas", compare_and_swap)
#undef BITS
  if (op == "cas" && type == "b16") return atomic<uint16_t, compare_and_swap<uint16_t>>;
  if (op == "inc" && u32) return atomic<uint32_t, increment>;
  if (op == "dec" && u32) return atomic<uint32_t, decrement>;
  return nullptr;
}

// ---- Asynchronous copies ----------------------------------------------------------------------------------
// Inst: imm[0..1], flag[0] the destination, imm[2..3], flag[2] the source; flag[3] bytes to write,
// src[0] bytes to read (flag[4] == 1) or a predicate that says to read none (2, or 3 if negated).

void copy(Warp& w, const Inst& i) {
  unsigned size = i.flag[3];
  Access to, from;
  to.lanes = w.active;
  to.space = Space::Shared;
  read_addresses(w, i, 0, to);
  read_addresses(w, i, 2, from);
  settle(to);
  check_shared(w, to, size, size, Effect::Store);

  uint32_t wanted[kLanes], left = w.active;
  std::fill(wanted, wanted + kLanes, size);
  for (int l = 0; l < kLanes && i.flag[4]; ++l) {
    bool ignored = i.flag[4] >= 2 && ((w.reg(i.src[0]).mask >> l & 1) != (i.flag[4] == 3));
    wanted[l] = i.flag[4] == 1 ? w.reg(i.src[0]).u32[l] : ignored ? 0 : size;
  }
  while (left) {                       // lanes that read equally many bytes are one request
    int first = __builtin_ctz(left);
    uint32_t bytes = wanted[first], lanes = 0;
    for (int l = 0; l < kLanes; ++l) lanes |= (uint32_t)(wanted[l] == bytes) << l;
    lanes &= left;
    left &= ~lanes;
    if (bytes > size)
      w.fault("invalid-argument", text("cp.async of %u bytes with a source size of %u", size, bytes), first);
    if (bytes) {
      Access part = from;
      part.lanes = lanes;
      part.space = Space::Global;
      settle(part);
      check_global(w, part, bytes, size, Effect::Load);
    }
    each_lane(lanes, [&](int l) {
      struct Sixteen { uint64_t low, high; };
      if (bytes == 16) return write(to.at[l], read<Sixteen>(from.at[l]));
      memcpy((void*)to.at[l], (const void*)from.at[l], bytes);
      memset((uint8_t*)to.at[l] + bytes, 0, size - bytes);
    });
  }
}

// ---- Address conversion and the rest ----------------------------------------------------------------------

void nothing(Warp&, const Inst&) {}
void fence(Warp&, const Inst&) { std::atomic_thread_fence(std::memory_order_seq_cst); }
void policy(Warp& w, const Inst& i) { lanes64(w, i.dst[0], [](int) { return 0; }); }

void same_address(Warp& w, const Inst& i) {
  const Reg& a = w.reg(i.src[0]);
  lanes64(w, i.dst[0], [&](int l) { return a.u64[l]; });
}
template <int sign>
void convert_shared(Warp& w, const Inst& i) {
  const Reg& a = w.reg(i.src[0]);
  uint64_t base = (uint64_t)w.block->shared;
  lanes64(w, i.dst[0], [&](int l) { return sign > 0 ? a.u64[l] + base : a.u64[l] - base; });
}
template <int sign>
void convert_local(Warp& w, const Inst& i) {
  const Reg& a = w.reg(i.src[0]);
  uint64_t base = (uint64_t)w.local, bytes = w.function->local_bytes;
  lanes64(w, i.dst[0], [&](int l) {
    uint64_t own = base + (uint64_t)l * bytes;
    return sign > 0 ? a.u64[l] + own : a.u64[l] - own;
  });
}
// A parameter's address may be an offset, which becomes a pointer.
void convert_param(Warp& w, const Inst& i) {
  const Reg& a = w.reg(i.src[0]);
  Window param = param_window(w);
  lanes64(w, i.dst[0], [&](int l) { return a.u64[l] < param.bytes ? a.u64[l] + param.start : a.u64[l]; });
}

Space space_of(const Warp& w, int lane, uint64_t address) {
  if (shared_window(w).holds(address)) return Space::Shared;
  if (local_window(w, lane).holds(address)) return Space::Local;
  if (param_window(w).holds(address)) return Space::Param;
  if (const Module* module = w.block->launch->module)
    for (const auto& entry : module->globals)
      if (entry.second.space == Space::Const && address - entry.second.address < entry.second.bytes) return Space::Const;
  return Space::Global;
}
void is_space(Warp& w, const Inst& i) {
  const Reg& a = w.reg(i.src[0]);
  lanes_predicate(w, i.dst[0], [&](int l) {
    return (w.active >> l & 1) && space_of(w, l, a.u64[l]) == (Space)i.flag[3];
  });
}

// ---- Binding ----------------------------------------------------------------------------------------------

// What the dotted parts after the opcode say. Hints about caches and ordering change no value here.
struct Qualifiers {
  Space space = Space::Generic;
  int vector = 1;
  std::string type, operation;       // operation: of atom and red
  bool cache_policy = false;         // one more operand at the end
};

bool read_qualifiers(const Parsed& p, Qualifiers& q) {
  static const std::map<std::string, Space> spaces = {
      {"global", Space::Global}, {"shared", Space::Shared}, {"shared::cta", Space::Shared}, {"local", Space::Local},
      {"const", Space::Const}, {"param", Space::Param}, {"param::entry", Space::Param}};
  static const char* hints[] = {"ca", "cg", "cs", "lu", "cv", "nc", "wb", "wt", "volatile", "relaxed", "acquire",
                                "release", "acq_rel", "weak", "mmio", "cta", "cluster", "gpu", "sys", "unified",
                                "noftz"};
  static const char* operations[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"};
  static const char* types[] = {"b8", "u8", "s8", "b16", "u16", "s16", "f16", "bf16", "b32", "u32", "s32", "f32",
                                "f16x2", "bf16x2", "b64", "u64", "s64", "f64", "b128"};
  auto among = [](const auto& list, const std::string& part) {
    return std::find(std::begin(list), std::end(list), part) != std::end(list);
  };
  for (size_t k = 1; k < p.parts.size(); ++k) {
    const std::string& part = p.parts[k];
    auto space = spaces.find(part);
    if (space != spaces.end()) q.space = space->second;
    else if (part == "v2" || part == "v4" || part == "v8") q.vector = part[1] - '0';
    else if (among(types, part)) q.type = part;
    else if (among(operations, part) && q.operation.empty()) q.operation = part;
    else if (part == "L2::cache_hint") q.cache_policy = true;
    else if (part.compare(0, 4, "L1::") && part.compare(0, 4, "L2::") && !among(hints, part)) return false;
  }
  return true;
}

int bytes_of(const std::string& type) {
  if (type == "b128") return 16;
  if (type == "f16x2" || type == "bf16x2") return 4;
  return std::stoi(type.substr(type.find_first_of("123468"))) / 8;
}

// The register under an address, read as wide as it is. The parser gives symbols a 64-bit slot.
bool bind_address(const Operand& o, Inst& inst, int k) {
  if (o.kind != Operand::Address) return false;
  inst.imm[k] = o.offset;
  inst.imm[k + 1] = o.slot;
  if (o.slot < 0) {
    inst.flag[k] = (uint8_t)Base::Absolute;
  } else if (o.width == 32 || o.width == 64) {
    inst.flag[k] = (uint8_t)(o.width == 32 ? Base::Bits32 : Base::Bits64);
  } else {
    return false;
  }
  return true;
}

// The registers of a value, one for each element. `wide`: they hold 64 bits. False if they disagree.
bool bind_elements(const Operand& o, int count, int bytes, bool writes, int* slots, bool& wide) {
  std::vector<Operand> alone(1, o);
  const std::vector<Operand>& parts = o.kind == Operand::Vector ? o.parts : alone;
  if ((int)parts.size() != count) return false;
  wide = bytes == 8;
  for (const Operand& part : parts) wide |= part.kind == Operand::Register && part.width == 64;
  for (int k = 0; k < count; ++k) {
    const Operand& part = parts[k];
    if (part.predicate) return false;
    if (part.kind == Operand::Register) {
      if (wide != (part.width == 64) || part.width > 64) return false;
      slots[k] = part.slot;
    } else if (writes) {
      if (part.kind != Operand::Sink) return false;
      slots[k] = -1;
    } else {
      if (part.kind != Operand::Immediate && part.kind != Operand::Symbol) return false;
      slots[k] = wide ? source64(part) : source32(part);
    }
  }
  return true;
}

Handler load_handler(char kind, int bytes, bool wide) {
  bool is_signed = kind == 's';
  switch (bytes) {
    case 1: return is_signed ? (wide ? load<int8_t, uint64_t> : load<int8_t, uint32_t>)
                             : (wide ? load<uint8_t, uint64_t> : load<uint8_t, uint32_t>);
    case 2: return is_signed ? (wide ? load<int16_t, uint64_t> : load<int16_t, uint32_t>)
                             : (wide ? load<uint16_t, uint64_t> : load<uint16_t, uint32_t>);
    case 4: return !wide ? load<uint32_t, uint32_t> : is_signed ? load<int32_t, uint64_t> : load<uint32_t, uint64_t>;
    default: return load<uint64_t, uint64_t>;
  }
}
Handler store_handler(int bytes, bool wide) {
  switch (bytes) {
    case 1: return wide ? store<uint8_t, uint64_t> : store<uint8_t, uint32_t>;
    case 2: return wide ? store<uint16_t, uint64_t> : store<uint16_t, uint32_t>;
    case 4: return wide ? store<uint32_t, uint64_t> : store<uint32_t, uint32_t>;
    default: return store<uint64_t, uint64_t>;
  }
}

bool bind_load_store(const Parsed& p, Inst& inst, bool writes_memory) {
  Qualifiers q;
  if (!read_qualifiers(p, q) || q.type.empty() || !q.operation.empty()) return false;
  if (p.operands.size() != 2u + q.cache_policy) return false;
  if (writes_memory && (q.space == Space::Param || q.space == Space::Const)) return false;
  const Operand& value = p.operands[writes_memory ? 1 : 0];
  if (!bind_address(p.operands[writes_memory ? 0 : 1], inst, 0)) return false;
  int bytes = bytes_of(q.type), count = q.vector;
  if (bytes * count > 32) return false;
  bool wide = false;
  if (bytes == 16) {                 // a 128-bit register is two of 64 bits
    if (value.kind != Operand::Register || value.width != 128 || count != 1) return false;
    inst.src[0] = value.slot;
    inst.src[1] = value.slot + 1;
    bytes = 8, count = 2, wide = true;
  } else if (!bind_elements(value, count, bytes, !writes_memory, inst.src, wide)) {
    return false;
  }
  if (!writes_memory) std::copy(inst.src, inst.src + 4, inst.dst);
  inst.flag[2] = (uint8_t)(bytes * count);
  inst.flag[3] = (uint8_t)q.space;
  inst.flag[4] = (uint8_t)count;
  inst.run = writes_memory ? store_handler(bytes, wide) : load_handler(q.type[0], bytes, wide);
  inst.klass = q.space == Space::Shared ? Class::Shared : writes_memory ? Class::Store : Class::Load;
  return true;
}

bool bind_atomic(const Parsed& p, Inst& inst) {
  Qualifiers q;
  if (!read_qualifiers(p, q) || q.type.empty() || q.operation.empty()) return false;
  if (q.space != Space::Generic && q.space != Space::Global && q.space != Space::Shared) return false;
  bool returns = p.op() == "atom", cas = q.operation == "cas";
  size_t at = returns ? 1 : 0;
  if (p.operands.size() != at + 2 + cas + q.cache_policy || (cas && !returns)) return false;
  if (q.vector > 4 || (q.vector > 1 && (q.operation != "add" || q.type[0] == 'u' || q.type[0] == 's'))) return false;
  inst.run = atomic_handler(q.operation, q.type);
  int bytes = bytes_of(q.type);
  bool wide = false;
  if (!inst.run || !bind_address(p.operands[at], inst, 0)) return false;
  if (!bind_elements(p.operands[at + 1], q.vector, bytes, false, inst.src, wide) || wide != (bytes == 8)) return false;
  if (cas && (!bind_elements(p.operands[at + 2], 1, bytes, false, inst.src + 4, wide) || wide != (bytes == 8)))
    return false;
  if (returns && p.operands[0].kind != Operand::Sink &&
      (!bind_elements(p.operands[0], q.vector, bytes, true, inst.dst, wide) || wide != (bytes == 8)))
    return false;
  inst.flag[2] = (uint8_t)(bytes * q.vector);
  inst.flag[3] = (uint8_t)q.space;
  inst.flag[4] = (uint8_t)q.vector;
  inst.klass = Class::Atomic;
  return true;
}

bool bind_copy(const Parsed& p, Inst& inst) {
  inst.klass = Class::Async;
  if (p.parts.size() < 3 || p.parts[1] != "async") return false;
  const std::string& form = p.parts[2];
  if (form == "commit_group" || form == "wait_group" || form == "wait_all") {   // copies are done at once
    inst.run = nothing;
    return p.parts.size() == 3;
  }
  if (form != "ca" && form != "cg") return false;
  size_t count = p.operands.size();
  bool shared = p.has("shared") || p.has("shared::cta");
  if (p.has("L2::cache_hint")) --count;
  if (!shared || !p.has("global") || count < 3 || count > 4 || p.operands[2].kind != Operand::Immediate) return false;
  uint64_t size = p.operands[2].bits;
  if (size != 16 && (form == "cg" || (size != 4 && size != 8))) return false;
  if (!bind_address(p.operands[0], inst, 0) || !bind_address(p.operands[1], inst, 2)) return false;
  inst.flag[3] = (uint8_t)size;
  if (count == 4) {
    const Operand& limit = p.operands[3];
    if (limit.slot < 0 || (limit.kind == Operand::Register && limit.width == 64)) return false;
    inst.src[0] = source32(limit);
    inst.flag[4] = limit.predicate ? (limit.negated ? 3 : 2) : 1;
  }
  inst.run = copy;
  return true;
}

// Only 64-bit: a host pointer does not fit into 32 bits.
bool bind_conversion(const Parsed& p, Inst& inst) {
  Qualifiers q;
  Parsed rest = p;
  bool to = p.parts.size() > 1 && p.parts[1] == "to";
  if (to) rest.parts.erase(rest.parts.begin() + 1);
  if (!read_qualifiers(rest, q) || q.type != "u64" || q.space == Space::Generic || p.operands.size() != 2) return false;
  inst.dst[0] = target(p.operands[0]);
  inst.src[0] = source64(p.operands[1]);
  if (inst.src[0] < 0) return false;
  inst.klass = Class::Integer;
  switch (q.space) {
    case Space::Shared: inst.run = to ? convert_shared<-1> : convert_shared<1>; break;
    case Space::Local: inst.run = to ? convert_local<-1> : convert_local<1>; break;
    case Space::Param: inst.run = to ? same_address : convert_param; break;
    default: inst.run = same_address;
  }
  return true;
}

bool bind_is_space(const Parsed& p, Inst& inst) {
  Qualifiers q;
  if (!read_qualifiers(p, q) || q.space == Space::Generic || p.operands.size() != 2) return false;
  if (p.operands[1].kind == Operand::Register && p.operands[1].width != 64) return false;
  inst.dst[0] = target(p.operands[0]);
  inst.src[0] = source64(p.operands[1]);
  inst.flag[3] = (uint8_t)q.space;
  inst.run = is_space;
  inst.klass = Class::Integer;
  return inst.src[0] >= 0;
}

bool bind_without_effect(Inst& inst, Handler run, Class klass) {
  inst.run = run;
  inst.klass = klass;
  return true;
}

}  // namespace

bool bind_memory(const Parsed& p, Inst& inst) {
  const std::string& op = p.op();
  if (op == "ld" || op == "ldu") return bind_load_store(p, inst, false);
  if (op == "st") return bind_load_store(p, inst, true);
  if (op == "atom" || op == "red") return bind_atomic(p, inst);
  if (op == "cp") return bind_copy(p, inst);
  if (op == "cvta") return bind_conversion(p, inst);
  if (op == "isspacep") return bind_is_space(p, inst);
  if (op == "membar" || op == "fence") return bind_without_effect(inst, fence, Class::Control);
  if (op == "prefetch" || op == "prefetchu" || op == "applypriority" || op == "discard")
    return !p.has("tensormap") && bind_without_effect(inst, nothing, Class::Load);
  if (op == "createpolicy") {
    if (p.operands.empty()) return false;
    inst.dst[0] = target(p.operands[0]);
    return bind_without_effect(inst, policy, Class::Move);
  }
  return false;
}

}  // namespace ptx
