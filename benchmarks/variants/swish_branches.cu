// task: core/level1/swish
// family: divergence
// kernelblaster-tune: WAYS = 1, 4, 16, 32
#ifndef WAYS
#define WAYS 4
#endif

static const int THREADS = 256;

// The lanes of a warp take turns in WAYS groups, each in double precision.
__global__ void swish(float* out, const float* x, int64_t n) {
    int64_t i = blockIdx.x * int64_t(THREADS) + threadIdx.x;
    if (i >= n) return;
    int group = threadIdx.x % WAYS;
    float v = x[i], result = 0;
#pragma unroll 1
    for (int way = 0; way < WAYS; ++way)
        if (way == group) result = float(double(v) / (1 + exp(-double(v))));
    out[i] = result;
}

extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          int64_t x_2, cudaStream_t stream) {
    int64_t n = x_0 * x_1 * x_2;
    swish<<<unsigned((n + THREADS - 1) / THREADS), THREADS, 0, stream>>>(out, x, n);
}
