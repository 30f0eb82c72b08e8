#include <cuda_fp16.h>

__global__ void scale_bias_h2(half2* y, const half2* x, half2 scale, half2 bias, int n2) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n2) y[i] = __hfma2(x[i], scale, bias);
}

// n is even
extern "C" void scale_bias(half* y, const half* x, float scale, float bias, int n, cudaStream_t stream) {
  int n2 = n / 2;
  scale_bias_h2<<<(n2 + 255) / 256, 256, 0, stream>>>(
      reinterpret_cast<half2*>(y), reinterpret_cast<const half2*>(x), __float2half2_rn(scale),
      __float2half2_rn(bias), n2);
}
