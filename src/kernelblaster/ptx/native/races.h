// Races: accesses of different warps to the same bytes that nothing orders, at least one of them a write.
//
// Every grain of memory (the smallest access of the kernel) remembers its last writer and its last reader
// as a tag: which block, when within the block, which warp. An access compares tags with what its warp knows:
//
//   - A block's clock ticks at each barrier and fence. A barrier of all threads orders everything before it;
//     a named one orders the warps that take part.
//   - Blocks are ordered only by messages: a fence and then an atomic or volatile write publishes what came
//     before; an atomic or volatile read acquires everything that was published until then, whichever
//     variable carried the message. Within a block messages count too.
//   - A cluster's barrier is such a message from every warp to all of them. Accesses to the shared memory of
//     other blocks are not compared with others.
//   - Lanes of one warp are ordered, except where one instruction writes two values to one place.
//   - Atomics and volatile accesses do not race with each other, except for volatile stores: of two, one is lost.
//   - A store that changes nothing harms nobody.
//
// Where several warps or blocks read one place, the tag says only "several"; a later write is then taken as
// ordered if its warp has learned anything since. So a race may be missed, never invented, in kernels that
// order their threads by messages or named barriers.
#pragma once
#include "access.h"

namespace ptx {

// A tag: serial number of the block << 32 | time << 8 | atomic << 7 | atomic or volatile << 6 | warp.
constexpr int kTimeShift = 8;
constexpr uint64_t kAtomic = 128, kStrong = 64, kSeveral = 63;

constexpr int kMostWarps = 32;
constexpr size_t kMostPublications = 256;   // of one block; later ones extend the last

// Tags of one range of memory. All arrays are in one piece of zeroed memory, `tags`.
struct Shadow {
  uint64_t *wrote = nullptr, *read = nullptr;
  uint32_t *wrote_at = nullptr, *read_at = nullptr;   // source line << 10 | warp << 5 | lane
  uint64_t first = 0;                                 // grain of the first cell
  Shadow() = default;
  Shadow(uint64_t* tags, uint64_t cells, uint64_t first);
  static uint64_t cells(uint64_t bytes, int grain) { return (bytes >> grain) + 2; }
};

// What a warp knows of the others. Clocks are of its own block.
struct Knowledge {
  uint32_t known[kMostWarps] = {0};    // accesses of warp u up to this time are ordered before what follows
  uint32_t fenced[kMostWarps] = {0};   // those that were ordered before the last fence
  bool unpublished = false;            // there was a fence since the last message
  uint64_t acquired = 0;               // messages up to this number have been received; 0: none
};

struct Publication {
  uint64_t number;
  uint32_t fenced[kMostWarps];
  int warp;                            // which wrote the message, and when
  uint32_t time;
};

// What the blocks of a launch share.
struct Messages {
  uint32_t first_serial = 0, last_serial = 0;   // of the launch's blocks; the last one stands for "several"
  std::atomic<uint64_t> count{1};
  std::atomic<int> found{0};
  std::mutex lock;
  std::unordered_map<uint32_t, std::vector<Publication>> published;   // by block
  static std::unique_ptr<Messages> begin(uint64_t blocks);   // null: races are not checked
};

// The clock of one block and the tags of its shared memory.
struct Order {
  uint32_t serial = 0, now = 1, floor = 1;      // everything before `floor` is ordered before what follows
  bool messages = false;                        // some warp has fenced or acquired
  std::vector<Knowledge> warps;
  Knowledge arrived[16];                        // by named barrier: what those know that did not wait
  Shadow shared;
  // Conflicts of the current access that stand if its store changes memory.
  struct Conflict { uint64_t tag; uint32_t at; bool wrote; uint8_t before[32]; };
  Conflict conflicts[kLanes];

  // `rank` is the block's in its cluster: those of different rank are checked at the same time.
  Order(uint32_t serial, int rank, int warps, uint64_t shared_bytes, int grain);
  void arrive(int warp, int barrier);
  void meet(uint32_t warps, int barrier, bool everyone);
  void fence(int warp);
  // Whether what a tag tells of is ordered before what this warp does next.
  bool orders(const Warp& w, uint64_t tag, bool wrote, bool in_shared) const;
  void tick();
};

// Shadow of an allocation, made when it is first needed.
Shadow shadow_of(Memory& memory, Allocation& allocation, int grain);

// Compares and replaces the tags of an access to shared memory, or to global memory (host addresses).
void watch_shared(Warp& w, const Access& a, unsigned size, Effect effect);
void watch_global(Warp& w, const Access& a, unsigned size, Effect effect, const Shadow& shadow);
// One lane's access to consecutive bytes, for instructions with addresses of their own. `address` is an
// offset in shared memory, or a host address in `allocation`.
void watch_span(Warp& w, int lane, Allocation* allocation, uint64_t address, unsigned bytes, Effect effect);

}  // namespace ptx
