#include "warp_reduce.cuh"

// Combines one value of each thread of the block: within warps by shuffles, then one value a warp.
template <int THREADS, typename T, typename Combine>
__device__ T block_shuffle_reduce(T value, Combine combine) {
  constexpr int WARPS = THREADS / 32;
  __shared__ T partial[WARPS];
  value = warp_reduce(value, combine);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = warp_reduce<WARPS>(partial[threadIdx.x % WARPS], combine);
  __syncthreads();  // before the memory is used again
  return value;
}
