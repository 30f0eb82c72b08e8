// task: core/level1/axpy
// family: occupancy
// kernelblaster-tune: KILOBYTES = 0, 110, 220
// kernelblaster-tune: UNROLL = 1, 4
#ifndef KILOBYTES
#define KILOBYTES 0
#endif
#ifndef UNROLL
#define UNROLL 1
#endif

static const int THREADS = 128;

// Each block asks for shared memory that it does not use: fewer blocks are resident, and only loads
// in flight within a thread can hide the memory's latency.
__global__ void axpy(float* out, const float* x, const float* y, float alpha, int64_t n) {
    int64_t first = blockIdx.x * int64_t(THREADS) * UNROLL + threadIdx.x;
    float u[UNROLL], v[UNROLL];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
        int64_t at = first + i * THREADS;
        u[i] = at < n ? x[at] : 0;
        v[i] = at < n ? y[at] : 0;
    }
#pragma unroll
    for (int i = 0; i < UNROLL; ++i) {
        int64_t at = first + i * THREADS;
        if (at < n) out[at] = alpha * u[i] + v[i];
    }
}

extern "C" void launch_gpu_implementation(float* out, const float* x, const float* y, double alpha,
                                          int64_t x_0, int64_t x_1, cudaStream_t stream) {
    int64_t n = x_0 * x_1, share = THREADS * UNROLL;
    cudaFuncSetAttribute(axpy, cudaFuncAttributeMaxDynamicSharedMemorySize, KILOBYTES << 10);
    axpy<<<unsigned((n + share - 1) / share), THREADS, KILOBYTES << 10, stream>>>(out, x, y, float(alpha), n);
}
