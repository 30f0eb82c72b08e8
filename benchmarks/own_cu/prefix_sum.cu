// Inclusive scan of each row, one block for a row, a chunk at a time.
template <int BLOCK>
__global__ void scan_rows(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  __shared__ float buf[BLOCK];
  const int row = blockIdx.x;
  float carry = 0.f;
  for (int base = 0; base < cols; base += BLOCK) {
    int j = base + threadIdx.x;
    buf[threadIdx.x] = j < cols ? x[(size_t)row * cols + j] : 0.f;
    __syncthreads();
    for (int d = 1; d < BLOCK; d *= 2) {
      float v = threadIdx.x >= d ? buf[threadIdx.x - d] : 0.f;
      __syncthreads();
      buf[threadIdx.x] += v;
      __syncthreads();
    }
    if (j < cols) y[(size_t)row * cols + j] = carry + buf[threadIdx.x];
    carry += buf[BLOCK - 1];
    __syncthreads();
  }
}

void prefix_sum(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  scan_rows<256><<<rows, 256, 0, stream>>>(x, y, rows, cols);
}
