// Sum of an array: a tree in shared memory, then one atomic for each block.
#define THREADS 128

__global__ void block_sum(const float* data, float* total, size_t n) {
  __shared__ float cache[THREADS];
  size_t i = blockIdx.x * (size_t)THREADS + threadIdx.x;
  cache[threadIdx.x] = i < n ? data[i] : 0.0f;
  __syncthreads();
  for (int s = THREADS / 2; s > 0; s /= 2) {
    if (threadIdx.x < s) cache[threadIdx.x] += cache[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(total, cache[0]);
}

void sum(const float* data, float* total, size_t n, cudaStream_t s) {
  cudaMemsetAsync(total, 0, sizeof(float), s);
  block_sum<<<(n + THREADS - 1) / THREADS, THREADS, 0, s>>>(data, total, n);
}
