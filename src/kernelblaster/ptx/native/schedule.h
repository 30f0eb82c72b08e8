// Which blocks run when, on the cores of the host.
#pragma once
#include <functional>

#include "machine.h"
#include "timing.h"

namespace ptx {

// The timings of the blocks of a cluster, by its number; empty: what they cost is not recorded.
using Timings = std::function<std::vector<BlockTiming>(uint64_t)>;

// Runs clusters of a launch on so many threads, each cluster to its end before the thread takes the next: those whose
// numbers are number(k) for k < count. A fault stops the launch.
void run_apart(Launch& launch, uint64_t count, const std::function<uint64_t(uint64_t)>& number, int threads, const Timings& timings);

// Runs all clusters of a launch whose blocks may wait for each other. They start in order, as many at once as the GPU
// holds, and take turns, unless `draws.in_order` of drawn lengths and in drawn order, so that none may rely on another being
// further than hardware promises. Where all of them wait and no other may start, that is a deadlock.
void run_together(Launch& launch, int threads, const Timings& timings);

}  // namespace ptx
