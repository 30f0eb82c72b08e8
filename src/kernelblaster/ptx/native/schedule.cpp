#include "schedule.h"

#include <stdexcept>
#include <thread>

#include "cluster_run.h"

namespace ptx {
namespace {

constexpr size_t kFirstOpen = 16;        // clusters that are begun before any has to wait for others
constexpr int kPatience = 96;            // turns of all blocks in which none advances: a deadlock
constexpr int kShortest = 4, kLengths = 11;   // turns are 2^4 to 2^14 instructions of a warp long

// Calls `body`; what it throws ends the launch.
template <typename Body>
Turn guarded(Launch& launch, Body body) {
  try {
    return body();
  } catch (const Fault& fault) {
    keep_finding(launch, fault.finding);
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
  return Turn::Finished;
}

using OpenClusters = std::vector<std::unique_ptr<ClusterRun>>;

// The clusters of a launch whose blocks speak to each other, and how the threads of the host share them.
class Conversation {
 public:
  Conversation(Launch& launch, int threads, const Timings& timings)
      : launch_(launch), timings_(timings), clusters_(launch.blocks() / launch.together()),
        resident_(launch.resident ? launch.resident : clusters_), idle_((size_t)threads) {}

  // What one thread does until no cluster is left for it.
  void work(int thread) {
    OpenClusters mine;
    size_t room = kFirstOpen;
    for (uint64_t turn = (uint64_t)thread << 32; !launch_.stopped; ++turn) {
      while (mine.size() < room && start(mine)) {}
      if (mine.empty() && !more()) break;
      if (pass(mine, turn)) {
        for (auto& idle : idle_) idle = 0;
      } else if (room < mine.size() + 1 && more() && !full()) {
        room *= 2;
      } else if (!mine.empty() && all_idle(thread) && !said_.exchange(true)) {
        guarded(launch_, [&]() -> Turn { mine.front()->deadlock(why()); });
      } else if (mine.empty()) {
        idle_[(size_t)thread] = kPatience;
        std::this_thread::yield();
      }
    }
    idle_[(size_t)thread] = kPatience;
  }

 private:
  Launch& launch_;
  const Timings& timings_;
  const uint64_t clusters_, resident_;
  std::mutex lock_;                          // the next two
  uint64_t next_ = 0, open_ = 0;             // the next cluster to start; those that have started and not finished
  std::vector<std::atomic<int>> idle_;       // by thread: its turns since any cluster has advanced
  std::atomic<bool> said_{false};            // that it is a deadlock

  bool more() { std::lock_guard<std::mutex> hold(lock_); return next_ < clusters_; }
  bool full() { std::lock_guard<std::mutex> hold(lock_); return open_ >= resident_; }

  bool start(OpenClusters& mine) {
    uint64_t number;
    {
      std::lock_guard<std::mutex> hold(lock_);
      if (next_ >= clusters_ || open_ >= resident_ || launch_.stopped) return false;
      number = next_++;
      ++open_;
    }
    guarded(launch_, [&] {
      mine.push_back(std::make_unique<ClusterRun>(launch_, number, timings_ ? timings_(number) : std::vector<BlockTiming>()));
      return Turn::Advanced;
    });
    return true;
  }

  // A turn for each cluster of a thread: in order, or from a drawn one on, upwards or downwards. Returns whether any of
  // them advanced.
  bool pass(OpenClusters& mine, uint64_t turn) {
    bool advanced = false;
    const uint64_t drawn = mixed(launch_.draws.seed, turn), count = mine.size();
    for (uint64_t n = 0; n < count && !launch_.stopped; ++n) {
      auto& cluster = mine[launch_.draws.in_order ? n : (drawn % count + (drawn >> 63 ? n : count - n)) % count];
      const int most = launch_.draws.in_order ? kTurn : 1 << (kShortest + mixed(drawn, n) % kLengths);
      const Turn done = guarded(launch_, [&] { return cluster->round(most); });
      advanced |= done != Turn::Waiting;
      if (done == Turn::Finished) cluster.reset();
    }
    const auto left = std::remove(mine.begin(), mine.end(), nullptr);
    std::lock_guard<std::mutex> hold(lock_);
    open_ -= (uint64_t)(mine.end() - left);
    mine.erase(left, mine.end());
    return advanced;
  }

  bool all_idle(int thread) {
    idle_[(size_t)thread] += 1;
    for (const auto& idle : idle_)
      if (idle < kPatience) return false;
    return true;
  }

  std::string why() {
    if (!more()) return "every thread that is left waits for something that no other will write";
    return "the " + std::to_string(resident_) + " blocks or clusters that the GPU runs at once wait for others, which cannot "
           "start before one of these has ended";
  }
};

}  // namespace

void run_apart(Launch& launch, uint64_t count, const std::function<uint64_t(uint64_t)>& number, int threads, const Timings& timings) {
  std::atomic<uint64_t> next{0};
  on_threads((int)std::min<uint64_t>((uint64_t)threads, count), [&](int) {
    for (uint64_t k; !launch.stopped && (k = next++) < count;)
      guarded(launch, [&] {
        ClusterRun run(launch, number(k), timings ? timings(number(k)) : std::vector<BlockTiming>());
        for (int idle = 0; !launch.stopped; ++idle) {
          const Turn done = run.round(kTurn);
          if (done == Turn::Finished) break;
          if (done == Turn::Advanced) idle = 0;
          if (idle > kPatience) run.deadlock("it waits for something that nobody writes while it runs");
        }
        return Turn::Finished;
      });
  });
}

void run_together(Launch& launch, int threads, const Timings& timings) {
  const uint64_t clusters = launch.blocks() / launch.together();
  threads = (int)std::min<uint64_t>((uint64_t)threads, clusters);
  Conversation conversation(launch, threads, timings);
  on_threads(threads, [&](int thread) { conversation.work(thread); });
}

void on_threads(int threads, const std::function<void(int)>& work) {
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work, i);
  work(0);
  for (auto& thread : others) thread.join();
}

}  // namespace ptx
