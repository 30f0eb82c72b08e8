// task: core/level1/cross_entropy
// family: loss with atomics
// kernelblaster-tune: BLOCK = 32, 512
// kernelblaster-tune: ATOMIC = 0, 1
#ifndef BLOCK
#define BLOCK 256
#endif
#ifndef ATOMIC
#define ATOMIC 1
#endif

template <class T, class Merge>
__device__ T over_block(T v, T neutral, Merge merge) {
    __shared__ T warps[32];
    for (int o = 16; o > 0; o /= 2) v = merge(v, __shfl_xor_sync(~0u, v, o));
    __syncthreads();
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x % 32 < blockDim.x / 32 ? warps[threadIdx.x % 32] : neutral;
    for (int o = 16; o > 0; o /= 2) v = merge(v, __shfl_xor_sync(~0u, v, o));
    return v;
}

// One block a row. The losses meet in one atomic sum, or are written down and added by one block.
__global__ void __launch_bounds__(BLOCK)
row_losses(double* losses, const float* logits, const int64_t* targets, int64_t classes) {
    int64_t row = blockIdx.x;
    logits += row * classes;
    float top = -INFINITY, sum = 0;
    for (int64_t c = threadIdx.x; c < classes; c += BLOCK) top = fmaxf(top, logits[c]);
    top = over_block(top, -INFINITY, [](float a, float b) { return fmaxf(a, b); });
    for (int64_t c = threadIdx.x; c < classes; c += BLOCK) sum += expf(logits[c] - top);
    sum = over_block(sum, 0.0f, [](float a, float b) { return a + b; });
    if (threadIdx.x > 0) return;
    double loss = log(double(sum)) + (double(top) - double(logits[targets[row]]));
    if (ATOMIC)
        atomicAdd(losses, loss);
    else
        losses[row] = loss;
}

__global__ void finish(float* out, const double* losses, int64_t count, int64_t rows) {
    double total = 0;
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) total += losses[i];
    total = over_block(total, 0.0, [](double a, double b) { return a + b; });
    if (threadIdx.x == 0) *out = float(total / double(rows));
}

__global__ void clear(double* losses) { *losses = 0; }

extern "C" void launch_gpu_implementation(float* out, const float* logits, const int64_t* targets,
                                          int64_t logits_0, int64_t logits_1, cudaStream_t stream) {
    int64_t count = ATOMIC ? 1 : logits_0;
    double* losses = nullptr;
    cudaMallocAsync(reinterpret_cast<void**>(&losses), count * sizeof(double), stream);
    if (ATOMIC) clear<<<1, 1, 0, stream>>>(losses);
    row_losses<<<unsigned(logits_0), BLOCK, 0, stream>>>(losses, logits, targets, logits_1);
    finish<<<1, 1024, 0, stream>>>(out, losses, count, logits_0);
    cudaFreeAsync(losses, stream);
}
