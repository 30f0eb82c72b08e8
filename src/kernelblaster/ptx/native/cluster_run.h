// Running a cluster, as a rule a single block: its blocks take turns.
#pragma once
#include "block_run.h"

namespace ptx {

// What came of a turn. Waiting: nothing was done but to look whether others have done something.
enum class Turn : uint8_t { Finished, Advanced, Waiting };

class ClusterRun {
 public:
  // With `timings`, one for each block, what the blocks cost is recorded there.
  ClusterRun(Launch& launch, uint64_t number, std::vector<BlockTiming> timings) : launch_(launch), timings_(std::move(timings)) {
    for (int rank = 0; rank < (int)launch.together(); ++rank) {
      BlockTiming* timing = timings_.empty() ? nullptr : &timings_[(size_t)rank];
      runs_.push_back(std::make_unique<BlockRun>(launch, number, rank, blocks_, timing));
      blocks_.push_back(&runs_.back()->block());
    }
  }

  // Every warp executes up to `most` instructions.
  Turn round(int most) {
    bool left = false, moved = false, advanced = false;
    for (auto& run : runs_) {
      if (run->block().finished) continue;
      moved |= run->round(most);
      advanced |= run->advanced();
      left |= !run->block().finished;
    }
    if (left && !advanced && !launch_.stopped) {
      if (meet()) advanced = true;
      else if (!moved) deadlock();
    }
    if (left) return advanced ? Turn::Advanced : Turn::Waiting;
    for (auto& run : runs_) run->close();
    return Turn::Finished;
  }

  [[noreturn]] void deadlock(const std::string& why = "") {
    for (auto& run : runs_) {
      if (run->block().finished) continue;
      if (why.empty()) run->deadlock();
      run->deadlock(why);
    }
    throw std::runtime_error("deadlock of finished blocks");
  }

 private:
  Launch& launch_;
  std::vector<BlockTiming> timings_;
  std::vector<std::unique_ptr<BlockRun>> runs_;
  std::vector<Block*> blocks_;

  // Where all threads that are left have come to the cluster's barrier, those that wait for it go on.
  bool meet() {
    uint32_t missing = 0;
    double last = 0;
    for (const Block* block : blocks_)
      for (const Warp& w : block->warps) {
        missing |= w.alive & ~w.arrived;
        if (w.clock) last = std::max(last, w.clock->now);
      }
    if (!missing)
      for (Block* block : blocks_) {
        block->met += 1;
        for (Warp& w : block->warps) w.passed |= w.arrived, w.arrived = 0;
      }
    bool passed = false;
    for (auto& run : runs_) passed |= run->pass_cluster(last);
    return passed;
  }
};

}  // namespace ptx
