// softmax.cu with a mistake that tests on a GPU can miss: block_reduce returns without a last barrier, so that the
// second reduction may overwrite partial[0] while a slower warp still reads the result of the first.
// Find it with: kernelblaster emulate core/level1/softmax examples/racy_softmax.cu
#define THREADS 512

struct Max {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

template <typename Combine>
__device__ float block_reduce(float* partial, float value, float neutral, Combine combine) {
  for (int lane = 16; lane > 0; lane /= 2) value = combine(value, __shfl_xor_sync(0xffffffff, value, lane));
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x < THREADS / 32 ? partial[threadIdx.x] : neutral;
  if (threadIdx.x < 32) {
    for (int lane = 16; lane > 0; lane /= 2) value = combine(value, __shfl_xor_sync(0xffffffff, value, lane));
    if (threadIdx.x == 0) partial[0] = value;
  }
  __syncthreads();
  return partial[0];
}

__global__ void __launch_bounds__(THREADS) softmax(float* out, const float* x, int64_t columns) {
  __shared__ float partial[THREADS / 32];
  const float* row = x + blockIdx.x * columns;
  float largest = -INFINITY;
  for (int64_t i = threadIdx.x; i < columns; i += THREADS) largest = fmaxf(largest, row[i]);
  largest = block_reduce(partial, largest, -INFINITY, Max());

  float sum = 0;
  for (int64_t i = threadIdx.x; i < columns; i += THREADS) sum += expf(row[i] - largest);
  sum = block_reduce(partial, sum, 0.0f, Sum());

  float scale = 1.0f / sum;
  for (int64_t i = threadIdx.x; i < columns; i += THREADS)
    out[blockIdx.x * columns + i] = expf(row[i] - largest) * scale;
}

extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          cudaStream_t stream) {
  softmax<<<(unsigned)x_0, THREADS, 0, stream>>>(out, x, x_1);
}
