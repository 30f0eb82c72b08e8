// Asynchronous copies that are under way. Their data moves when somebody waits for them, not before: until then the
// bytes that they will write are flagged, and to touch these is a finding, `not-awaited`.
#pragma once
#include <deque>

#include "access.h"

namespace ptx {

// Flags of bytes of shared memory (Block::shared_written); 0 is: nothing wrote them.
enum Written : uint8_t { kByThread = 1, kUnderWay = 2, kByCopy = 3, kBeingRead = 4 };   // the last: by a copy

// A part of a copy whose bytes do not lie side by side at both ends. Without a source it fills: with zeros, or with NaN
// of so many bytes an element.
struct Piece {
  uint8_t* to;
  const uint8_t* from;
  uint32_t bytes, nan_bytes;
};

struct Copy {
  Block* block = nullptr;              // whose shared memory is written; null: global memory
  uint64_t offset = 0;                 // there
  Block* reads = nullptr;              // whose shared memory it reads; null: global memory
  uint64_t reads_at = 0;               // there
  uint8_t* to = nullptr;
  const uint8_t* from = nullptr;
  uint32_t bytes = 0, wanted = 0;      // of `bytes` those that are read; the rest is zeros
  Warp* issuer = nullptr;
  int lane = 0;
  uint32_t line = 0, group = 0;        // how many groups its thread had committed before
  bool bulk = false, done = false;
  bool delivered = false;              // an mbarrier waits for it as well
  bool flushes = false;                // subnormal floats become zero
  std::vector<Piece> pieces;           // if not empty, these are moved
};

// Copies of one thread that it has not awaited, the oldest first. Bulk copies to global memory have groups of
// their own.
struct ThreadCopies {
  std::vector<Copy*> queue;
  size_t head = 0;
  uint32_t committed = 0;              // groups
};

// An arrival at an mbarrier that happens when copies are done: some of a thread, or one of many bytes.
struct Delivery {
  std::vector<Copy*> copies;
  uint32_t arrivals = 0, bytes = 0;
};

// Of one block.
struct Copies {
  std::deque<Copy> pool;
  std::vector<Copy*> unused;
  std::vector<ThreadCopies> plain, bulk;                       // by thread; empty until there is one
  std::map<uint64_t, std::vector<Delivery>> deliveries;        // by mbarrier of this block: its host address
};

// From now on a copy is under way: flags what it will write.
Copy* start_copy(Warp& w, const Copy& copy);
// Moves its data, unless that has happened.
void finish_copy(Copy& copy);
// The copies of a thread; `bulk`: those with groups of their own.
ThreadCopies& copies_of(Warp& w, int lane, bool bulk);
void add_to_group(Warp& w, int lane, bool bulk, Copy* copy);
void commit_copies(Warp& w, bool bulk);
void await_copies(Warp& w, bool bulk, uint64_t still_running);   // all groups but the last so many

// Notes accesses to bytes of a block's shared memory that a copy is still writing.
void check_awaited(Warp& w, const Block& block, const Access& a, unsigned size, Effect effect);

// Shared memory of a block of the cluster that an operand names: a 32-bit address, or a generic one (cluster.cpp).
struct SharedPlace {
  Block* block;
  uint64_t offset;
};
SharedPlace shared_place(Warp& w, uint64_t address, bool generic, int lane);
// One lane's access to consecutive bytes of another block's; `copy`: by a copy, whose end its issuer does not see.
void visit_span(Warp& w, const SharedPlace& at, int lane, unsigned bytes, Effect effect, bool copy);

}  // namespace ptx
