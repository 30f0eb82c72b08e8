__constant__ float c_weights[5] = {0.0625f, 0.25f, 0.375f, 0.25f, 0.0625f};

__global__ void blur_rows(const float* src, float* dst, int height, int width) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float acc = 0.f;
#pragma unroll
  for (int k = -2; k <= 2; ++k) {
    int xx = min(max(x + k, 0), width - 1);
    acc += c_weights[k + 2] * src[y * width + xx];
  }
  dst[y * width + x] = acc;
}

extern "C" void blur(const float* src, float* dst, int height, int width, cudaStream_t stream) {
  dim3 block(16, 16);
  dim3 grid((width + 15) / 16, (height + 15) / 16);
  blur_rows<<<grid, block, 0, stream>>>(src, dst, height, width);
}
