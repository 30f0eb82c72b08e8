// Combines one value of each thread of the block, pair by pair; every thread gets the result.
template <typename T, typename Combine>
__device__ T block_reduce(T value, Combine combine) {
  __shared__ T partial[1024];
  partial[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      partial[threadIdx.x] = combine(partial[threadIdx.x], partial[threadIdx.x + half]);
    }
    __syncthreads();
  }
  T result = partial[0];
  __syncthreads();  // before the memory is used again
  return result;
}
