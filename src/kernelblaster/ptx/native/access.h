// What every instruction that touches memory goes through, so that none can reach memory unchecked:
//
//   operand -> Access (an address for each lane) -> place -> checks, flags, counts -> host pointers -> data
//
// Only the last step, moving the data, differs. Inactive lanes take the address of the active lane before
// them: checks and counts may then look at all 32 lanes without masks.
#pragma once
#include <algorithm>

#include "machine.h"

namespace ptx {

// Changes whenever any allocation does: tells threads that what they remember of Memory is stale.
extern std::atomic<uint64_t> generation;

enum class Effect : uint8_t { Load, Store, Atomic };
enum class Base : uint8_t { Absolute, Bits32, Bits64 };

struct Access {
  alignas(64) uint64_t at[kLanes];
  uint32_t lanes = 0;               // those that really access memory
  Space space = Space::Global;      // where, never Generic
  bool strong = false;              // atomic or volatile: for threads that do not wait for each other
  bool is_volatile = false;         // strong, but no atomic of C++
  bool read_only = false;           // through a cache that sees no writes of this launch
  bool deep = false;                // past the cache of its multiprocessor
  const Block* owner = nullptr;     // whose shared memory it is; null: the accessing block's
  uint64_t low, high, bits;         // least and greatest address; all addresses or-ed
  int64_t stride;                   // between lanes, if affine
  bool affine;
  int first() const { return __builtin_ctz(lanes); }
  bool apart(unsigned size) const { return affine && (stride >= (int64_t)size || -stride >= (int64_t)size); }
  bool contiguous(unsigned size) const { return affine && stride == (int64_t)size && lanes == kAllLanes; }
};

// Fills the lanes that do not take part, and summarizes.
inline void settle(Access& a) {
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
inline void read_addresses(Warp& w, const Inst& i, int k, Access& a) {
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

// ---- Steps in other files ---------------------------------------------------------------------------------

// printf into a string.
std::string text(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Faults if lanes may not access what they address (checks.cpp); turns their addresses into host pointers.
void check(Warp& w, Access& a, unsigned size, unsigned align, Effect effect);
void check_global(Warp& w, Access& a, unsigned size, unsigned align, Effect effect);
void check_shared(Warp& w, Access& a, unsigned size, unsigned align, Effect effect);
void check_cluster(Warp& w, Access& a, unsigned size, unsigned align, Effect effect);   // cluster.cpp

// The flag of the byte at address x is at x + bias (written.cpp). Notes reads of what nothing wrote.
void track(Warp& w, const Access& a, unsigned size, uint64_t bias, const std::string* allocation, uint64_t start,
           Effect effect);

void track_local(Warp& w, const Access& a, unsigned size, Effect effect);

// What an access costs (traffic.cpp).
void count_global(Warp& w, const Access& a, unsigned size, Effect effect);
void count_shared(Warp& w, const Access& a, unsigned size, Effect effect);
void count_local(Warp& w, const Access& a, unsigned size);

// "4-byte load from global address 0x..."
std::string describe(Effect effect, unsigned size, const char* space, uint64_t address);
const char* name_of(Space space);

// ---- Data -------------------------------------------------------------------------------------------------

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

template <typename D> D* lanes_of(Reg& r);
template <> inline uint32_t* lanes_of<uint32_t>(Reg& r) { return r.u32; }
template <> inline uint64_t* lanes_of<uint64_t>(Reg& r) { return r.u64; }

// ---- From operand to data ---------------------------------------------------------------------------------

struct Window {
  uint64_t start, bytes;
  bool holds(uint64_t address) const { return address - start < bytes; }
};
inline Window shared_window(const Warp& w) { return {(uint64_t)w.block->shared, w.block->shared_bytes}; }
inline Window param_window(const Warp& w) {
  const std::vector<uint8_t>& parameters = w.block->launch->parameters;
  return {(uint64_t)parameters.data(), parameters.size()};
}
inline Window local_window(const Warp& w, int lane) {
  uint64_t bytes = w.local ? w.block->launch->function->stack_bytes() : 0;
  return {(uint64_t)w.local + (uint64_t)lane * bytes, bytes};
}

// Addresses of a cluster's shared memory (cluster.cpp): a block's own are offsets, as ever.
constexpr uint64_t kNoCluster = ~0ull, kOffset = (1 << 24) - 1;
constexpr int kRankShift = 24;       // above it: the rank of another block, from 1
uint64_t cluster_address(const Warp& w, uint64_t pointer);   // kNoCluster: it is in no block of the cluster
uint64_t cluster_pointer(Warp& w, uint64_t address, int lane);

// What an instruction means to other threads, in flag[5] of an Inst.
enum Ordering : uint8_t { kStrongAccess = 1, kAcquires = 2, kPublishes = 4, kFences = 8, kInBlock = 16, kVolatile = 32,
                          kReadOnly = 64, kRelaxed = 128 };   // kRelaxed: what is read counts only behind a fence

// Steps of races.cpp and order.cpp: before data moves, after it has, and after a message was read.
void fence_order(Warp& w, bool block_only);
void publish(Warp& w, const Access& a, unsigned size);
void report_suspects(Warp& w, const Access& a, unsigned size, Effect effect);
void acquire(Warp& w, const Access& a, unsigned size, bool relaxed);
// Strong accesses for threads of one block only must not meet others (scopes.cpp).
void check_scope(Warp& w, const Access& a, unsigned size, bool in_block);
void publish_to_cluster(Warp& w, uint32_t lanes, bool relaxed);   // relaxed: only what is fenced already
void acquire_from_cluster(Warp& w);
void end_dependence(Warp& w);   // the launch before has ended
void fence_proxy(Warp& w);      // asynchronous copies see what was stored
// Lanes that name each other in their member masks have met; or all lanes of a warp have (lane_order.cpp).
void meet_lanes(Warp& w, uint32_t lanes, const uint32_t* named);
void meet_all_lanes(Warp& w);
// Two lanes may have written different values to one address.
void report_collision(Warp& w, const Access& a, unsigned size, int lane);

inline void confirm(Warp& w, const Access& a, unsigned size, Effect effect) {
  if (w.block->suspects) report_suspects(w, a, size, effect);
}

// From operand to data: reads the addresses, checks them, and calls move(warp, inst, access) with host pointers,
// once for each space concerned (reach.cpp).
using Move = void (*)(Warp& w, const Inst& i, const Access& a);
void reach(Warp& w, const Inst& i, Effect effect, Move move);

}  // namespace ptx
