template <int BLOCK>
__global__ void row_max(const float* x, float* out, int rows, int cols) {
  __shared__ float best[BLOCK];
  int row = blockIdx.x;
  float m = -3.4e38f;
  for (int c = threadIdx.x; c < cols; c += BLOCK) m = fmaxf(m, x[row * cols + c]);
  best[threadIdx.x] = m;
  __syncthreads();
  for (int s = BLOCK / 2; s > 0; s /= 2) {
    if (threadIdx.x < s) best[threadIdx.x] = fmaxf(best[threadIdx.x], best[threadIdx.x + s]);
    __syncthreads();
  }
  if (threadIdx.x == 0) out[row] = best[0];
}

extern "C" void max_per_row(const float* x, float* out, int rows, int cols, cudaStream_t stream) {
  row_max<128><<<rows, 128, 0, stream>>>(x, out, rows, cols);
}
