// Running a launch: blocks on all cores, those of a cluster together.
#include <functional>
#include <thread>

#include "block_run.h"

namespace ptx {

namespace {

constexpr size_t kMostFindings = 64;
constexpr size_t kMostOfAKind = 4;

Finding at(const Warp& w, const std::string& kind, const std::string& detail, int lane) {
  Finding f{kind, detail, w.block->launch->function->name, w.function->code[w.pc].line, {0, 0, 0}, {0, 0, 0}};
  for (int d = 0; d < 3; ++d) {
    f.block[d] = w.block->id[d];
    f.thread[d] = w.thread[lane < 0 ? 0 : lane][d];
  }
  return f;
}

void keep(Launch& launch, const Finding& finding) {
  std::lock_guard<std::mutex> hold(launch.lock);
  size_t alike = 0;
  for (const auto& f : launch.findings) alike += f.kind == finding.kind && f.line == finding.line;
  if (alike < kMostOfAKind && launch.findings.size() < kMostFindings) launch.findings.push_back(finding);
}

// The blocks of a cluster, in rounds; as a rule there is only one.
class ClusterRun {
 public:
  ClusterRun(Launch& launch, uint64_t first, BlockTiming* timings) : launch_(launch) {
    for (int rank = 0; rank < launch.function->cluster; ++rank) {
      runs_.push_back(std::make_unique<BlockRun>(launch, first + (uint64_t)rank, blocks_, timings ? timings + rank : nullptr));
      blocks_.push_back(&runs_.back()->block());
    }
  }

  void run() {
    for (bool left = true; left && !launch_.stopped;) {
      bool moved = false;
      left = false;
      for (auto& run : runs_) {
        if (run->block().finished) continue;
        moved |= run->round();
        left |= !run->block().finished;
      }
      if (left && !moved && !launch_.stopped && !meet()) deadlock();
    }
    for (auto& run : runs_) run->close();
  }

 private:
  Launch& launch_;
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
      for (Block* block : blocks_)
        for (Warp& w : block->warps) w.passed |= w.arrived, w.arrived = 0;
    bool passed = false;
    for (auto& run : runs_) passed |= run->pass_cluster(last);
    return passed;
  }

  [[noreturn]] void deadlock() {
    for (auto& run : runs_)
      if (!run->block().finished) run->deadlock();
    throw std::runtime_error("deadlock of finished blocks");
  }
};

}  // namespace

void Warp::fault(const std::string& kind, const std::string& detail, int lane) { throw Fault{at(*this, kind, detail, lane)}; }

void Warp::note(const std::string& kind, const std::string& detail, int lane) { keep(*block->launch, at(*this, kind, detail, lane)); }

void run_blocks(Launch& launch, uint64_t first, BlockTiming* timings) {
  try {
    ClusterRun(launch, first, timings).run();
  } catch (const Fault& fault) {
    keep(launch, fault.finding);
    launch.stopped = true;
  } catch (const std::exception& error) {
    std::lock_guard<std::mutex> hold(launch.lock);
    launch.broken = error.what();
    launch.stopped = true;
  }
}

void on_threads(int threads, const std::function<void()>& work) {
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (auto& thread : others) thread.join();
}

void execute(Launch& launch, int threads) {
  uint64_t blocks = launch.blocks();
  std::unique_ptr<Messages> messages = Messages::begin(blocks);
  launch.messages = messages.get();
  launch.grain = launch.function->grain;
  std::atomic<uint64_t> next{0};
  const uint64_t together = (uint64_t)launch.function->cluster;
  on_threads((int)std::min<uint64_t>((uint64_t)threads, blocks / together), [&] {
    for (uint64_t first; !launch.stopped && (first = next.fetch_add(together)) < blocks;) run_blocks(launch, first, nullptr);
  });
  launch.messages = nullptr;
  // What a race left unwritten is read uninitialized: the cause comes first.
  std::stable_partition(launch.findings.begin(), launch.findings.end(),
                        [](const Finding& f) { return f.kind != "uninitialized"; });
  if (!launch.broken.empty()) throw std::runtime_error(launch.broken);
}

}  // namespace ptx
