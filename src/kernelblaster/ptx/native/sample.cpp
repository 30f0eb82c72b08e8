// Which blocks of a grid are run to learn what the whole costs.
#include <algorithm>
#include <stdexcept>

#include "schedule.h"

namespace ptx {

namespace {

constexpr uint64_t kWhole = 16;     // times the instructions of a sample, for a launch of which all blocks must be run
constexpr double kUsableL2 = 0.9;   // of the cache, before what was loaded is lost again

// The k-th of numbers in [0, 1) that are spread evenly however many of them are taken.
double spread(uint64_t k) {
  double result = 0, part = 0.5;
  for (; k; k >>= 1, part /= 2) result += part * (double)(k & 1);
  return result;
}

// First blocks of the groups of neighbours to run, in order.
std::vector<uint64_t> groups(uint64_t blocks, uint64_t together, const Model& model) {
  std::vector<uint64_t> result;
  uint64_t all = (blocks + together - 1) / together, count = std::min(all, std::max<uint64_t>(1, model.most_blocks / together));
  for (uint64_t k = 0; result.size() < count && k < 4 * count + 8; ++k) {
    const double place = spread(k) + model.shift, share = place < 1 ? place : place - 1;
    uint64_t group = count == all || model.which == Model::First ? k : (uint64_t)(share * (double)all), first = together * group;
    if (group < all && std::find(result.begin(), result.end(), first) == result.end()) result.push_back(first);
  }
  return result;
}

bool fits_l2(const Costs& costs, const Model& model) {
  if (!costs.sampled) return true;
  double wave = 0, share = 32.0 / (double)costs.sampled * (double)model.resident;
  for (const auto& [start, t] : costs.traffic) wave += std::min((double)t.bytes, (double)t.first * share);
  return wave < kUsableL2 * (double)model.l2_bytes;
}

void merge(Costs& into, const Costs& from) {
  into.sampled += from.sampled;
  for (int k = 0; k < kPipes; ++k) into.pipes[k] += from.pipes[k];
  into.latency += from.latency;
  into.longest = std::max(into.longest, from.longest);
  into.lines += from.lines;
  into.missed_lines += from.missed_lines;
  into.l1_sectors += from.l1_sectors;
  into.l1_hits += from.l1_hits;
  into.store_sectors += from.store_sectors;
  into.partial_lines += from.partial_lines;
  into.atomic_sectors += from.atomic_sectors;
  into.atomic_lanes += from.atomic_lanes;
  into.hottest_atomic += from.hottest_atomic;
  for (const auto& [start, t] : from.traffic) {
    Traffic& mine = into.traffic[start];
    mine.name = t.name;
    mine.bytes = t.bytes;
    mine.first += t.first;
    mine.alone += t.alone;
    mine.again += t.again;
    mine.stored += t.stored;
  }
}

// Some blocks by themselves, in groups of neighbours.
void sample_apart(Launch& launch, const Model& model, int threads, Costs& total) {
  const uint64_t blocks = launch.blocks(), cluster = launch.together(), together = std::max<uint64_t>(2, cluster);
  auto chosen = groups(blocks, together, model);
  std::atomic<size_t> next{0};
  std::atomic<uint32_t> number{0};
  on_threads((int)std::min<size_t>(model.which == Model::First ? 1 : (size_t)threads, chosen.size()), [&](int) {
    Seen seen;
    auto timings = [&](uint64_t) {
      std::vector<BlockTiming> made;
      for (uint64_t rank = 0; rank < cluster; ++rank)
        made.emplace_back(model, *launch.function, seen, ++number, fits_l2(seen.costs, model));
      return made;
    };
    auto enough = [&] {
      std::lock_guard<std::mutex> hold(launch.lock);
      return launch.counts.total_warp_instructions > model.most_instructions;
    };
    for (size_t k; !launch.stopped && (k = next++) < chosen.size() && (k < 2 || !enough());) {
      const uint64_t end = std::min(chosen[k] + together, blocks), first = chosen[k] / cluster;
      run_apart(launch, (end - chosen[k] + cluster - 1) / cluster, [&](uint64_t n) { return first + n; }, 1, timings);
    }
    std::lock_guard<std::mutex> hold(launch.lock);
    merge(total, seen.costs);
  });
}

// All blocks, since each may wait for any other.
void sample_all(Launch& launch, const Model& model, Costs& total) {
  Seen seen;
  uint32_t number = 0;
  launch.draws.in_order = true;   // the same costs each time
  launch.draws.most_work = kWhole * model.most_instructions;
  run_together(launch, 1, [&](uint64_t) {
    std::vector<BlockTiming> made;
    for (uint64_t rank = 0; rank < launch.together(); ++rank)
      made.emplace_back(model, *launch.function, seen, ++number, fits_l2(seen.costs, model));
    return made;
  });
  merge(total, seen.costs);
}

}  // namespace

Costs sample(Launch& launch, const Model& model, int threads) {
  Costs total;
  total.instructions = launch.function->code.size();
  if (model.which == Model::All) sample_all(launch, model, total);
  else sample_apart(launch, model, threads, total);
  if (!launch.broken.empty()) throw std::runtime_error(launch.broken);
  return total;
}

}  // namespace ptx
