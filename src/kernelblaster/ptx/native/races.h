// Races: accesses of different threads to the same bytes that nothing orders, at least one of them a write.
//
// Every grain of memory (the smallest access of the kernel) remembers its last writer and its last reader
// as a tag: which block, when within the block, which warp; and beside it the lane and the source line. An
// access compares tags with what its warp knows:
//
//   - A block's clock ticks at each barrier and fence. A barrier of all threads orders everything before it;
//     a named one orders the warps that take part.
//   - Lanes of one warp are ordered by __syncwarp() and by every instruction that they execute together under
//     a member mask (lane_order.cpp), not by being in step.
//   - Blocks are ordered only by messages (messages.h): a fence and then an atomic or volatile write publishes
//     what came before; an atomic or volatile read of the same place receives it. Within a block messages
//     count too. A cluster's barrier is such a message from every warp to all of them.
//   - Blocks of a launch that depends programmatically on the one before are ordered behind it only by
//     griddepcontrol.wait.
//   - Atomics and volatile accesses do not race with each other, except for volatile stores: of two, one is lost. A
//     volatile or relaxed load orders plain loads behind it only where a fence follows. That it may return what was there
//     before is tried in a run of its own (overwritten.h).
//   - Loads through the read-only cache (ld.global.nc) must not meet any write of their launch, ordered or not.
//   - Shared memory of other blocks of a cluster is like global memory: only the cluster's barriers and mbarriers order.
//   - A store that changes nothing harms nobody.
//
// Where several warps or blocks read one place, the tag says only "several"; a later write is then taken as
// ordered if its warp has learned anything since. So a race may be missed, never invented, in kernels that
// order their threads by messages or named barriers.
#pragma once
#include "access.h"
#include "messages.h"

namespace ptx {

// A tag: serial number of the block << 32 | time << 8 | atomic << 7 | atomic or volatile << 6 | warp.
constexpr int kTimeShift = 8;
constexpr uint64_t kAtomic = 128, kStrong = 64, kSeveral = 63;

// Beside a tag: several lanes << 31 | source line << 10 | warp << 5 | lane.
constexpr uint32_t kManyLanes = 1u << 31, kLines = (1u << 21) - 1;
inline uint32_t line_of(uint32_t at) { return at >> 10 & kLines; }

// Tags of one range of memory. All arrays are in one piece of zeroed memory, `tags`.
struct Shadow {
  uint64_t *wrote = nullptr, *read = nullptr;
  uint32_t *wrote_at = nullptr, *read_at = nullptr;
  uint64_t first = 0;                                 // grain of the first cell
  Shadow() = default;
  Shadow(uint64_t* tags, uint64_t cells, uint64_t first);
  static uint64_t cells(uint64_t bytes, int grain) { return (bytes >> grain) + 2; }
};

// Order between the lanes of one warp (lane_order.cpp).
struct LaneOrder {
  uint32_t floor = 1;                  // what its lanes did before this time is ordered before what follows
  bool touched = false;                // memory was accessed since
  std::unique_ptr<uint32_t[]> known;   // [a * 32 + b]: until when what b did is ordered before a; null: as `floor` says
};

// Tags of shared memory, which the next block of a host thread takes over as they are.
struct SharedTags {
  std::vector<uint64_t> words;
  uint32_t last_user = 0;              // serial number of the block that had them last
};

// What the threads that arrived at an mbarrier in this phase know; and what those of ended phases did.
struct BarrierOrder {
  Knowledge arriving, completed;
};

// The clock of one block and the tags of its shared memory.
struct Order {
  uint32_t serial = 0, now = 1, floor = 1;      // everything before `floor` is ordered before what follows
  bool messages = false;                        // some warp has fenced or received something
  std::vector<Knowledge> warps;
  std::vector<LaneOrder> lanes;                 // by warp
  Knowledge arrived[16];                        // by named barrier: what those know that did not wait
  std::map<uint64_t, BarrierOrder> barriers;    // by place of an mbarrier in shared memory
  uint32_t proxy_fenced = 0;                    // time of the last fence.proxy.async
  Shadow shared;
  // Conflicts of the current access that stand if its store changes memory.
  struct Conflict { uint64_t tag; uint32_t at; bool wrote; uint8_t before[32]; };
  Conflict conflicts[kLanes];

  // Accesses of other blocks of the cluster to this block's shared memory (visits.cpp).
  struct Visit { uint64_t tag; uint32_t at, arrivals; };      // its warp's, at barriers of the cluster before
  std::unordered_map<uint64_t, std::vector<Visit>> readers;   // by grain, since it was last written
  std::map<uint64_t, Visit> visits;                           // by visitor's block and warp: the last one

  // `visited`: other blocks reach its shared memory.
  Order(uint32_t serial, int warps, uint64_t shared_bytes, int grain, bool visited);
  ~Order();
  void arrive(int warp, int barrier);
  void meet(uint32_t warps, int barrier, bool everyone);
  void fence(int warp, uint32_t lanes, bool block_only);
  // Whether what a tag tells of is ordered before what this lane does next.
  bool orders(const Warp& w, int lane, const Conflict& earlier, const Access& a, Effect effect) const;
  bool orders_lanes(int warp, int lane, uint32_t at, uint32_t time) const;
  void tick();
  // What a warp tells others at a barrier: what its lanes fenced counts for the warp.
  Knowledge told_by(int warp) const;

 private:
  bool visited_;
  SharedTags tags_;
};

// Shadow of an allocation, made when it is first needed.
Shadow shadow_of(Memory& memory, Allocation& allocation, int grain);

// What the warp publishes with a strong write now.
Publication publication_of(const Warp& w);

// A copy has written to its block's shared memory.
void tag_write(const struct Copy& copy);
// Line of a thread's store to these bytes of shared memory with no fence.proxy.async since; 0 if there is none.
uint32_t unfenced_store(const Order& o, const uint8_t* written, uint64_t offset, uint64_t bytes, int grain);

// Compares and replaces the tags of an access to shared memory, or to global memory (host addresses).
void watch_shared(Warp& w, const Access& a, unsigned size, Effect effect);
void watch_global(Warp& w, const Access& a, unsigned size, Effect effect, const Shadow& shadow);
// The same for one lane's access to another block's shared memory: `a.owner`. A copy leaves no tag: its issuer does
// not wait for it.
void watch_visit(Warp& w, const Access& a, unsigned size, Effect effect, bool copy = false);
// What other blocks have read of it, compared with a store to it.
void check_readers(Warp& w, const Access& a, unsigned size, Effect effect, Order& owner);
// A block has ended: whoever was in its shared memory must be known to have left.
void check_visits(Block& block);
// One lane's access to consecutive bytes, for instructions with addresses of their own. `address` is an
// offset in shared memory, or a host address in `allocation`.
void watch_span(Warp& w, int lane, Allocation* allocation, uint64_t address, unsigned bytes, Effect effect);

}  // namespace ptx
