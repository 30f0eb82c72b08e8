// Running a launch to its end.
#include <algorithm>
#include <stdexcept>

#include "access.h"
#include "messages.h"
#include "schedule.h"

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

// Runs a launch whose blocks have nothing to do with each other: all of them, or about as many as `draws.most_blocks`
// says: the first and the last one, where tails are, and one drawn from each of equal parts of the grid between them.
void run_independent(Launch& launch, int threads) {
  const uint64_t all = launch.blocks() / launch.together();
  uint64_t count = all;
  if (launch.draws.most_blocks && !launch.function->combines)
    count = std::min(all, std::max<uint64_t>(launch.draws.most_blocks / launch.together(), 1));
  auto drawn = [&](uint64_t k) {
    if (count > 2 && (k == 0 || k + 1 == count)) return k == 0 ? 0 : all - 1;
    const uint64_t begin = (uint64_t)((double)all / (double)count * (double)k);
    const uint64_t end = (uint64_t)((double)all / (double)count * (double)(k + 1));
    return begin + mixed(launch.draws.choice, k) % std::max<uint64_t>(end - begin, 1);
  };
  run_apart(launch, count, [&](uint64_t k) { return count == all ? k : drawn(k); }, threads, nullptr);
}

}  // namespace

void keep_finding(Launch& launch, const Finding& finding) {
  std::lock_guard<std::mutex> hold(launch.lock);
  size_t alike = 0;
  for (const auto& f : launch.findings) alike += f.kind == finding.kind && f.line == finding.line;
  if (alike < kMostOfAKind && launch.findings.size() < kMostFindings) launch.findings.push_back(finding);
}

void Warp::fault(const std::string& kind, const std::string& detail, int lane) { throw Fault{at(*this, kind, detail, lane)}; }

void Warp::note(const std::string& kind, const std::string& detail, int lane) {
  keep_finding(*block->launch, at(*this, kind, detail, lane));
}

uint32_t execute(Launch& launch, int threads) {
  std::unique_ptr<Messages> messages = launch.draws.unordered ? nullptr : Messages::begin(launch.blocks());
  launch.messages = messages.get();
  launch.grain = launch.function->grain;
  if (launch.function->reads_messages || launch.workspace) run_together(launch, threads, nullptr);
  else run_independent(launch, threads);
  const uint32_t first_serial = messages ? messages->first_serial : 0;
  launch.messages = nullptr;
  // What a race left unwritten is read uninitialized: the cause comes first.
  std::stable_partition(launch.findings.begin(), launch.findings.end(),
                        [](const Finding& f) { return f.kind != "uninitialized"; });
  if (!launch.broken.empty()) throw std::runtime_error(launch.broken);
  return first_serial;
}

}  // namespace ptx
