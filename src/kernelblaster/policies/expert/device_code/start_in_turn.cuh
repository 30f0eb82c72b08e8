// Clusters that start together stay in step: all load, then all store, and memory idles in between. So the
// first `TOGETHER` start one after another, within some 10 us; but not where few follow.
template <int TOGETHER>
__device__ void start_in_turn(unsigned cluster, unsigned rows) {
  constexpr int CYCLES = 21000 / TOGETHER;
  if (cluster >= TOGETHER || rows < 4 * TOGETHER) return;
  for (const int64_t start = clock64(); clock64() - start < cluster * CYCLES;) {}
}
