__global__ void distance_sum(float* out, const float* x, const float* y, int64_t n, int64_t m, int64_t d) {
  const int64_t j = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  const int64_t i = blockIdx.y;
  if (j >= m) return;
  float total = 0.0f;
  for (int64_t k = 0; k < d; ++k) {
    const float difference = fabsf(x[i * d + k] - y[j * d + k]);
    total += difference;
  }
  out[i * m + j] = total;
}

extern "C" void launch_gpu_implementation(
    float* out, const float* x, const float* y, int64_t x_0, int64_t x_1, int64_t y_0, cudaStream_t stream) {
  distance_sum<<<dim3((unsigned)((y_0 + 127) / 128), (unsigned)x_0), 128, 0, stream>>>(out, x, y, x_0, y_0, x_1);
}
