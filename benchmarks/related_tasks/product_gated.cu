__global__ void gated(float* out, const float* x, const float* w, const float* v, int64_t m, int64_t n,
                      int64_t depth) {
  const int64_t column = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  const int64_t row = blockIdx.y * (int64_t)blockDim.y + threadIdx.y;
  if (column >= n || row >= m) return;
  float sum = 0.0f, gate = 0.0f;
  for (int64_t k = 0; k < depth; ++k) {
    sum += x[row * depth + k] * w[k * n + column];
    gate += x[row * depth + k] * v[k * n + column];
  }
  out[row * n + column] = sum / (1.0f + expf(-gate));
}

extern "C" void launch_gpu_implementation(
    float* out, const float* x, const float* w, const float* v, int64_t x_0, int64_t x_1, int64_t w_1,
    cudaStream_t stream) {
  const dim3 grid((unsigned)((w_1 + 15) / 16), (unsigned)((x_0 + 15) / 16));
  gated<<<grid, dim3(16, 16), 0, stream>>>(out, x, w, v, x_0, w_1, x_1);
}
