#include <math.h>

// one thread per row
__global__ void softmax(float* y, const float* x, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  const float* in = x + r * cols;
  float* out = y + r * cols;
  float m = -INFINITY;
  for (int j = 0; j < cols; j++) m = fmaxf(m, in[j]);
  float sum = 0;
  for (int j = 0; j < cols; j++) sum += expf(in[j] - m);
  for (int j = 0; j < cols; j++) out[j] = expf(in[j] - m) / sum;
}

extern "C" void softmax_forward(float* y, const float* x, int rows, int cols, cudaStream_t stream) {
  int threads = 256;
  int blocks = (rows + threads - 1) / threads;
  softmax<<<blocks, threads, 0, stream>>>(y, x, rows, cols);
}
