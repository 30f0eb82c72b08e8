#include "block_shuffle_reduce.cuh"

// Values that the blocks of a cluster tell each other, one each. Each TURN has memory of its own: no block
// overwrites what another one still reads.
template <int BLOCKS, int TURN, typename T>
__device__ T* cluster_parts() {
  __shared__ T parts[BLOCKS];
  return parts;
}

// Combines one value of each thread of the block, and tells it to all blocks.
template <int THREADS, int BLOCKS, int TURN, typename T, typename Combine>
__device__ void tell_cluster(T value, Combine combine) {
  T* parts = cluster_parts<BLOCKS, TURN, T>();
  value = block_shuffle_reduce<THREADS>(value, combine);
  if (threadIdx.x < BLOCKS) {
    *(T*)__cluster_map_shared_rank(&parts[__clusterRelativeBlockRank()], threadIdx.x) = value;
  }
}

__device__ void meet_cluster() {
  __cluster_barrier_arrive();
  __cluster_barrier_wait();
}

// Combines what the blocks have told.
template <int BLOCKS, int TURN, typename T, typename Combine>
__device__ void hear_cluster(T& value, Combine combine) {
  const T* parts = cluster_parts<BLOCKS, TURN, T>();
  value = parts[0];
  #pragma unroll
  for (int block = 1; block < BLOCKS; ++block) value = combine(value, parts[block]);
}
