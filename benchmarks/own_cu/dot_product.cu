__global__ void dot_kernel(const float* a, const float* b, float* result, int n) {
  float sum = 0.0f;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) sum += a[i] * b[i];
  for (int offset = 16; offset > 0; offset >>= 1) sum += __shfl_down_sync(0xffffffff, sum, offset);
  if ((threadIdx.x & 31) == 0) atomicAdd(result, sum);
}

extern "C" void dot(const float* a, const float* b, float* result, int n, cudaStream_t stream) {
  cudaMemsetAsync(result, 0, sizeof(float), stream);
  dot_kernel<<<512, 256, 0, stream>>>(a, b, result, n);
}
