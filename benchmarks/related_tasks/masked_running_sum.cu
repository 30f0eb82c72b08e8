__global__ void running_sum(float* out, const float* x, const bool* mask, int64_t rows, int64_t cols) {
  const int64_t row = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int64_t col = 0; col < cols; ++col) {
    sum += x[row * cols + col] * (mask[row * cols + col] ? 1.0f : 0.0f);
    out[row * cols + col] = sum;
  }
}

extern "C" void launch_gpu_implementation(
    float* out, const float* x, const bool* mask, int64_t x_0, int64_t x_1, cudaStream_t stream) {
  running_sum<<<(unsigned)((x_0 + 63) / 64), 64, 0, stream>>>(out, x, mask, x_0, x_1);
}
