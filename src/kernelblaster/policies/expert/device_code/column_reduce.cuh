// Combines the values of the warps of a block, lane by lane; every thread gets the result of its lane.
template <int WARPS, typename T, typename Combine>
__device__ T column_reduce(T value, Combine combine) {
  __shared__ T partial[WARPS][32];
  partial[threadIdx.x / 32][threadIdx.x % 32] = value;
  __syncthreads();
  value = partial[0][threadIdx.x % 32];
  #pragma unroll
  for (int warp = 1; warp < WARPS; ++warp) value = combine(value, partial[warp][threadIdx.x % 32]);
  __syncthreads();  // before the memory is used again
  return value;
}
