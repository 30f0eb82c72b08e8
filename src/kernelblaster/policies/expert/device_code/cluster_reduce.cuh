// Combines one value of each thread of the blocks of a cluster. Every block tells its part to all others.
// Each TURN has memory of its own: no block overwrites what another one still reads.
template <int THREADS, int BLOCKS, int TURN, typename T, typename Combine>
__device__ T cluster_reduce(T value, Combine combine) {
  __shared__ T parts[BLOCKS];
  value = block_shuffle_reduce<THREADS>(value, combine);
  if (threadIdx.x < BLOCKS) {
    *(T*)__cluster_map_shared_rank(&parts[__clusterRelativeBlockRank()], threadIdx.x) = value;
  }
  __cluster_barrier_arrive();
  __cluster_barrier_wait();
  value = parts[0];
  #pragma unroll
  for (int block = 1; block < BLOCKS; ++block) value = combine(value, parts[block]);
  return value;
}
