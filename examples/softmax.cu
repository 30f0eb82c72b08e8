// A row softmax: one block a row, three passes over it, the last two mostly from cache.
// Evaluate it with: kernelblaster evaluate core/level1/softmax examples/softmax.cu
// kernelblaster-tune: THREADS = 256, 512, 1024
#ifndef THREADS
#define THREADS 512
#endif

struct Max {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

template <typename Combine>
__device__ float block_reduce(float value, float neutral, Combine combine) {
  __shared__ float partial[THREADS / 32];
  for (int lane = 16; lane > 0; lane /= 2) value = combine(value, __shfl_xor_sync(0xffffffff, value, lane));
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x < THREADS / 32 ? partial[threadIdx.x] : neutral;
  if (threadIdx.x < 32) {
    for (int lane = 16; lane > 0; lane /= 2) value = combine(value, __shfl_xor_sync(0xffffffff, value, lane));
    if (threadIdx.x == 0) partial[0] = value;
  }
  __syncthreads();
  value = partial[0];
  __syncthreads();
  return value;
}

__global__ void __launch_bounds__(THREADS) softmax(float* out, const float* x, int64_t columns) {
  const float* row = x + blockIdx.x * columns;
  float largest = -INFINITY;
  for (int64_t i = threadIdx.x; i < columns; i += THREADS) largest = fmaxf(largest, row[i]);
  largest = block_reduce(largest, -INFINITY, Max());

  float sum = 0;
  for (int64_t i = threadIdx.x; i < columns; i += THREADS) sum += expf(row[i] - largest);
  sum = block_reduce(sum, 0.0f, Sum());

  float scale = 1.0f / sum;
  for (int64_t i = threadIdx.x; i < columns; i += THREADS)
    out[blockIdx.x * columns + i] = expf(row[i] - largest) * scale;
}

extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          cudaStream_t stream) {
  softmax<<<(unsigned)x_0, THREADS, 0, stream>>>(out, x, x_1);
}
