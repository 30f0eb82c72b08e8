// task: core/level1/swish
// family: pointwise
// kernelblaster-tune: RUN = 1, 2, 8, 64
#ifndef RUN
#define RUN 8
#endif

static const int THREADS = 128;

// RUN neighbours a thread, one after the other: the longer the run, the further apart are the lanes.
__global__ void swish(float* out, const float* x, int64_t n) {
    int64_t first = (blockIdx.x * int64_t(THREADS) + threadIdx.x) * RUN;
    for (int64_t i = first; i < first + RUN && i < n; ++i) out[i] = x[i] / (1 + expf(-x[i]));
}

extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          int64_t x_2, cudaStream_t stream) {
    int64_t n = x_0 * x_1 * x_2, share = THREADS * RUN;
    swish<<<unsigned((n + share - 1) / share), THREADS, 0, stream>>>(out, x, n);
}
