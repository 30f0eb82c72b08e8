// task: core/level1/mse_loss
// family: loss with atomics
// kernelblaster-tune: LEVEL = 0, 1, 2
// kernelblaster-tune: EACH = 16, 256
#ifndef LEVEL
#define LEVEL 1
#endif
#ifndef EACH
#define EACH 64
#endif

static const int THREADS = 256;

// All partial sums go to one address: from every thread (0), every warp (1) or every block (2).
__global__ void add_up(double* total, const float* a, const float* b, int64_t n) {
    __shared__ double warps[THREADS / 32];
    int64_t first = blockIdx.x * int64_t(THREADS) * EACH + threadIdx.x;
    float sum = 0;
    for (int i = 0; i < EACH; ++i) {
        int64_t at = first + int64_t(i) * THREADS;
        if (at < n) sum += (a[at] - b[at]) * (a[at] - b[at]);
    }
    double mine = sum;
    if (LEVEL == 0) {
        atomicAdd(total, mine);
        return;
    }
    for (int o = 16; o > 0; o /= 2) mine += __shfl_xor_sync(~0u, mine, o);
    if (LEVEL == 1) {
        if (threadIdx.x % 32 == 0) atomicAdd(total, mine);
        return;
    }
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int w = 1; w < THREADS / 32; ++w) mine += warps[w];
    atomicAdd(total, mine);
}

__global__ void finish(float* out, const double* total, int64_t n) { *out = float(*total / double(n)); }

extern "C" void launch_gpu_implementation(float* out, const float* predictions, const float* targets,
                                          int64_t predictions_0, int64_t predictions_1,
                                          cudaStream_t stream) {
    int64_t n = predictions_0 * predictions_1, share = int64_t(THREADS) * EACH;
    double* total = nullptr;
    cudaMallocAsync(reinterpret_cast<void**>(&total), sizeof(double), stream);
    cudaMemsetAsync(total, 0, sizeof(double), stream);
    add_up<<<unsigned((n + share - 1) / share), THREADS, 0, stream>>>(total, predictions, targets, n);
    finish<<<1, 1, 0, stream>>>(out, total, n);
    cudaFreeAsync(total, stream);
}
