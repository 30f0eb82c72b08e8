// What a kernel costs: a mode of execution in which some blocks of a grid are run, and their instructions,
// their way through the caches and the waits between dependent instructions are recorded.
//
//   Model (what the GPU offers one block) + sampled blocks --> Costs (sums over these blocks)
//
// Counts are in units of the machine, not of time: a GPU's rates are applied elsewhere, so that one run
// serves every GPU of the same residency.
#pragma once
#include <unordered_map>

#include "machine.h"

namespace ptx {

// What the model is told before a launch. Latencies are in cycles.
struct Model {
  uint64_t l1_bytes = 0;           // cache that one block may count as its own
  uint64_t l2_bytes = 0;           // cache of the whole GPU
  uint64_t resident = 1;           // blocks on the GPU at once
  uint64_t most_blocks = 64;       // at most so many blocks are run ...
  uint64_t most_instructions = 0;  // ... and no more are begun after so many warp instructions
  enum Which : uint8_t { Spread, First, All } which = Spread;   // blocks all over the grid; the first ones, one after the
                                   // other; or all of them, which take turns: where blocks wait for each other
  double shift = 0;                // of the blocks that are spread, as a share of the grid
  double l1_latency = 0, l2_latency = 0, dram_latency = 0, shared_latency = 0, barrier_latency = 0;
};

// Warp instructions as the hardware's pipes see them. PTX is not what runs: a division is a dozen
// instructions there, a move none. The weights are those of ptxas' usual expansions.
struct PipeUse {
  float issue = 1, fma = 0, alu = 0, multiply = 0, special = 0, convert = 0, fp64 = 0, half = 0, memory = 0,
        shuffle = 0, tensor = 0;   // tensor: multiply-adds, in units of half precision
  float latency = 5;               // cycles until a result can be used
};
constexpr int kPipes = 11;

// Cache traffic of one allocation, in sectors of 32 bytes, summed over the sampled blocks.
struct Traffic {
  std::string name;
  uint64_t bytes = 0;
  uint64_t first = 0;              // distinct sectors that a block loaded, summed over blocks
  uint64_t alone = 0;              // of these, those that no other sampled block had touched
  uint64_t again = 0;              // loaded once more by the same block, after the L1 cache had lost them
  uint64_t stored = 0;             // distinct sectors that a block stored to
};

struct Costs {
  uint64_t sampled = 0;            // blocks
  uint64_t instructions = 0;       // in the kernel's text
  double pipes[kPipes] = {0};
  double latency = 0;              // cycles from a block's start to its end if it were alone, summed
  double longest = 0;              // the most of one block
  uint64_t lines = 0;              // 128-byte lines asked of the L1 cache, by loads, stores and atomics
  uint64_t missed_lines = 0;       // of the loads' lines, those of which a sector was not there
  uint64_t l1_sectors = 0, l1_hits = 0, store_sectors = 0, partial_lines = 0,
           atomic_sectors = 0, atomic_lanes = 0;
  uint64_t hottest_atomic = 0;     // most atomics on one address, by lanes
  std::unordered_map<uint64_t, Traffic> traffic;   // by start of the allocation
};

// One instruction of a function as the timeline needs it.
struct Step {
  enum Kind : uint8_t { Plain, Load, Store, Copy, CloseGroup, WaitGroup, End } kind = Plain;
  PipeUse use;
  std::vector<int> reads, writes;  // slots
  bool cached = true;              // may hit in the L1 cache
  uint8_t spaces = 0;              // that it may touch: 1 global, 2 shared, 4 local
  int open_groups = 0;             // WaitGroup: how many may still be under way
};

std::vector<Step> steps_of(const Function& function);

// What one thread of the emulator has seen of memory, over the blocks that it ran.
struct Seen {
  struct Line { uint32_t block = 0; uint8_t loaded = 0, stored = 0, ever = 0; };
  // A function's code, with what this thread knows of each instruction.
  struct Text {
    std::vector<Step> steps;
    std::vector<uint64_t> executed;                 // in the block that is running
    std::vector<const Allocation*> allocations;     // the last that each instruction used
  };
  std::unordered_map<const Function*, Text> texts;
  std::unordered_map<uint64_t, Line> lines;
  std::unordered_map<uint64_t, uint64_t> atomics;   // lanes, by address
  Costs costs;
};

// The L1 cache of one block: 128-byte lines with four sectors each, least recently used lines go first.
class Cache {
 public:
  explicit Cache(uint64_t bytes);
  // The sectors of `wanted` (bits) that were present; afterwards all are.
  uint8_t access(uint64_t line, uint8_t wanted);

 private:
  static constexpr int kWays = 8;
  struct Way { uint64_t line = ~0ull; uint32_t used = 0; uint8_t sectors = 0; };
  std::vector<Way> ways_;
  uint64_t sets_;
  uint32_t now_ = 0;
};

// The timing of one block that is being run.
struct BlockTiming {
  const Model* model = nullptr;
  const Function* kernel = nullptr;
  Seen* seen = nullptr;
  Seen::Text* text = nullptr;      // of the kernel
  Cache cache;
  uint32_t number = 0;             // of the block, from 1
  bool again_in_l2 = true;         // what falls out of L1 is found in L2

  BlockTiming(const Model& model, const Function& kernel, Seen& seen, uint32_t number, bool again_in_l2);
  Seen::Text& text_of(const Function& function);
  void close(double end);          // adds the block to seen->costs
};

// The timeline of one warp: within a stretch of code without loops an instruction waits for its operands only,
// because ptxas moves loads ahead of their uses, and turns short branches into predicates; a stretch begins when
// the one before it was issued.
struct Timeline {
  BlockTiming* block = nullptr;
  std::vector<double> ready;       // by slot
  double now = 0;                  // start of the stretch
  double latest = 0, slots = 0;    // last issue, and issue slots within the stretch
  double stored[3] = {0, 0, 0};    // when the last store to each space was issued: no load is moved ahead of it
  double memory_latency = 0;       // of the access that was just made
  double copied = 0;               // when the asynchronous copies of the open group arrive
  std::vector<double> groups;      // and those of the groups that were closed

  void step(const Function& function, int pc, bool any_lane);
  void close_stretch();
};

// Runs some blocks of a launch, spread over the grid, and records what they cost. Neighbours are run in
// pairs, or as clusters, by one thread, so that what they share is seen.
Costs sample(Launch& launch, const Model& model, int threads);

// Called by memory instructions while a warp has a clock.
struct Access;
enum class Effect : uint8_t;
void time_global(Warp& w, const Access& a, unsigned size, Effect effect);
void time_shared(Warp& w, int wavefronts);

}  // namespace ptx
