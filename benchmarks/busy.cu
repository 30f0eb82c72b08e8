// A task for measuring the timer itself: every thread works for a known number of steps, and the
// result does not depend on how many.
// kernelblaster-task
// size: n = 4194304, small 1000
// output: out float32 [n]
// input: x float32 [n] normal
#ifndef STEPS
#define STEPS 1000
#endif

__global__ void busy(float* out, const float* x, int64_t n) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i >= n) return;
  float value = x[i];
  unsigned hash = __float_as_uint(value);
#pragma unroll 1
  for (int step = 0; step < STEPS; ++step) hash = hash * 1664525u + 1013904223u;
  out[i] = hash == 0x9e3779b9u ? nextafterf(value, 0.0f) : value;  // at most one rounding, once in 4 billion
}

extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t n, cudaStream_t stream) {
  busy<<<(unsigned)((n + 255) / 256), 256, 0, stream>>>(out, x, n);
}
