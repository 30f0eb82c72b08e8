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
  ClusterRun(Launch& launch, uint64_t number, BlockTiming* timings) : launch_(launch) {
    for (int rank = 0; rank < (int)launch.together(); ++rank) {
      runs_.push_back(std::make_unique<BlockRun>(launch, number, rank, blocks_, timings ? timings + rank : nullptr));
      blocks_.push_back(&runs_.back()->block());
    }
  }

  // Runs until all its blocks have finished, which is true, or they do nothing but wait for others.
  bool run() {
    for (bool left = true; left && !launch_.stopped;) {
      bool moved = false, polling = false;
      left = false;
      for (auto& run : runs_) {
        if (run->block().finished) continue;
        moved |= run->round();
        polling |= run->polling();
        left |= !run->block().finished;
      }
      if (left && !moved && !launch_.stopped && !meet()) deadlock();
      if (left && polling) return false;
    }
    for (auto& run : runs_) run->close();
    return true;
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
      for (Block* block : blocks_) {
        block->met += 1;
        for (Warp& w : block->warps) w.passed |= w.arrived, w.arrived = 0;
      }
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

namespace {

// Calls `body`; what it throws ends the launch.
template <typename Body>
bool guarded(Launch& launch, Body body) {
  try {
    return body();
  } catch (const Fault& fault) {
    keep(launch, fault.finding);
    launch.stopped = true;
  } catch (const Unknown& unknown) {
    std::lock_guard<std::mutex> hold(launch.lock);
    launch.unknown = unknown.what;
    launch.stopped = true;
  } catch (const std::exception& error) {
    std::lock_guard<std::mutex> hold(launch.lock);
    launch.broken = error.what();
    launch.stopped = true;
  }
  return true;
}

constexpr size_t kMostOpen = 4096;   // clusters of one thread that have begun and wait for others

// How many clusters are run, of which neighbours are `step` apart: all, or where they do not speak to each other, some.
struct Chosen {
  uint64_t count, first = 0, step = 1;
  explicit Chosen(const Launch& launch) : count(launch.blocks() / launch.together()) {
    const uint64_t all = count, most = std::max<uint64_t>(launch.draws.most_blocks / launch.together(), 1);
    if (!launch.draws.most_blocks || all <= most || launch.function->reads_messages || launch.workspace) return;
    count = most;
    step = all / most;
    first = mixed(launch.draws.seed, 5) % (all - (most - 1) * step);
  }
};

// Starts clusters in order. One that waits for blocks behind it, at a barrier of the grid, is put aside until
// as many others have been started as wait, or none are left.
void work(Launch& launch, std::atomic<uint64_t>& next) {
  const Chosen chosen(launch);
  std::vector<std::unique_ptr<ClusterRun>> open;
  auto give_turns = [&](size_t k) {
    while (k < open.size() && !launch.stopped) {
      if (guarded(launch, [&] { return open[k]->run(); })) open.erase(open.begin() + (long)k);
      else ++k;
    }
  };
  for (size_t waited = 0; !launch.stopped;) {
    uint64_t number = chosen.count;
    if (open.size() < kMostOpen) number = next.fetch_add(1);
    const bool started = number < chosen.count;
    if (!started && open.empty()) return;
    if (started) {
      const uint64_t which = chosen.first + number * chosen.step;
      guarded(launch, [&] { return open.push_back(std::make_unique<ClusterRun>(launch, which, nullptr)), true; });
      give_turns(open.size() - 1);
    }
    if (started && ++waited <= open.size()) continue;
    waited = 0;
    give_turns(0);
  }
}

}  // namespace

void run_blocks(Launch& launch, uint64_t number, BlockTiming* timings) {
  guarded(launch, [&] {
    ClusterRun run(launch, number, timings);
    while (!run.run() && !launch.stopped) {}
    return true;
  });
}

void on_threads(int threads, const std::function<void()>& work) {
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (auto& thread : others) thread.join();
}

uint32_t execute(Launch& launch, int threads) {
  uint64_t blocks = launch.blocks();
  std::unique_ptr<Messages> messages = Messages::begin(blocks);
  launch.messages = messages.get();
  launch.grain = launch.function->grain;
  std::atomic<uint64_t> next{0};
  on_threads((int)std::min<uint64_t>((uint64_t)threads, blocks / launch.together()), [&] { work(launch, next); });
  const uint32_t first_serial = messages ? messages->first_serial : 0;
  launch.messages = nullptr;
  // What a race left unwritten is read uninitialized: the cause comes first.
  std::stable_partition(launch.findings.begin(), launch.findings.end(),
                        [](const Finding& f) { return f.kind != "uninitialized"; });
  if (!launch.broken.empty()) throw std::runtime_error(launch.broken);
  return first_serial;
}

}  // namespace ptx
