// Messages between threads that no barrier joins: what was fenced before a strong write to a place is known to
// whoever reads that place afterwards with a strong read, and so is what its writer had received before.
#pragma once
#include "machine.h"

namespace ptx {

constexpr int kMostWarps = 32;
constexpr size_t kMostPublications = 1 << 17;   // of a launch; with more, everything counts as ordered

struct Location;

// The first `count` publications of a place have been received.
struct Heard {
  const Location* location;
  uint32_t count;
};
using HeardList = std::vector<Heard>;           // sorted by place
using HeardOf = std::shared_ptr<const HeardList>;

// Until when the accesses of each warp of a block, and of each lane of the warp itself, are before a fence.
struct Fenced {
  uint32_t warps[kMostWarps] = {0};
  uint32_t lanes[kLanes] = {0};
};

// What a warp knows of the others. Times are of its own block's clock.
struct Knowledge {
  uint32_t known[kMostWarps] = {0};    // accesses of warp u up to this time are ordered before what follows
  Fenced fenced, fenced_in_block;      // by fences for all blocks, and by those for the own block only
  uint32_t fences = 0;                 // how many there were
  HeardOf heard, heard_before_fence;
  HeardOf unfenced;                    // read by volatile or relaxed loads with no fence behind them
  bool acquired = false;               // it has read some place with a strong read
  bool waited = false;                 // for the launch before (griddepcontrol.wait)
};
void join(Knowledge& mine, const Knowledge& theirs);
HeardOf join(const HeardOf& a, const HeardOf& b);

// One strong write behind a fence.
struct Publication {
  uint32_t block;                      // serial number
  int warp;
  uint32_t time, fences;
  Fenced fenced, fenced_in_block;
  HeardOf heard;                       // by the writers of this one and of all earlier ones of the place
};

struct Location {
  std::vector<Publication> published;
  std::unordered_map<uint32_t, std::vector<uint32_t>> by_block;   // serial number -> places in `published`
};

// An access that someone wants to know to be ordered.
struct Earlier {
  uint32_t block;
  int warp, lane;                      // warp < 0: of any warp of the block
  uint32_t time;
  bool strong;                         // it may itself be the message
  bool same_block;                     // as the one who asks
};

// What the last strong write to a place replaced (overwritten.h).
struct Overwritten {
  uint8_t before[32];
  unsigned size;
  uint64_t tag;                        // of the write
  uint32_t at;
  std::unordered_map<uint32_t, uint32_t> left;   // by reading block: how many reads are still to return it
};

// What the blocks of a launch share.
struct Messages {
  uint32_t first_serial = 0, last_serial = 0;   // of the launch's blocks; the last one stands for "several"
  std::atomic<uint64_t> count{0};
  std::atomic<int> found{0};
  std::atomic<bool> scoped{false};              // there were strong accesses for threads of one block only
  std::unordered_map<uint64_t, uint32_t> in_block;    // by word of memory: the block that made one
  std::mutex lock;
  std::unordered_map<uint64_t, Location> locations;   // by word of memory, or by cluster
  std::unordered_map<uint64_t, Overwritten> overwritten;   // by address
  static std::unique_ptr<Messages> begin(uint64_t blocks);   // null: races are not checked

  void publish(uint64_t place, const Publication& publication);
  void receive(uint64_t place, HeardOf& heard);
  bool covers(const HeardOf& heard, const Earlier& earlier);
};

}  // namespace ptx
