// task: core/level1/layer_norm
// family: normalization
// kernelblaster-tune: BLOCK = 128, 512
// kernelblaster-tune: ONE_SWEEP = 0, 1
#ifndef BLOCK
#define BLOCK 256
#endif
#ifndef ONE_SWEEP
#define ONE_SWEEP 0
#endif

template <class T>
__device__ T block_sum(T v) {
    __shared__ T warps[32];
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    __syncthreads();
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x % 32 < BLOCK / 32 ? warps[threadIdx.x % 32] : T(0);
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    return v;
}

// One block a row. The variance takes a sweep of its own in float, or comes out of the first sweep
// if that is done in double.
__global__ void __launch_bounds__(BLOCK)
layer_norm(float* out, const float* x, const float* weight, const float* bias, int64_t cols) {
    x += blockIdx.x * cols;
    out += blockIdx.x * cols;
#if ONE_SWEEP
    double sum = 0, squares = 0;
    for (int64_t c = threadIdx.x; c < cols; c += BLOCK) {
        double v = x[c];
        sum += v;
        squares += v * v;
    }
    double exact = block_sum(sum) / double(cols);
    float mean = float(exact);
    float variance = float(block_sum(squares) / double(cols) - exact * exact);
#else
    float sum = 0, squares = 0;
    for (int64_t c = threadIdx.x; c < cols; c += BLOCK) sum += x[c];
    float mean = block_sum(sum) / float(cols);
    for (int64_t c = threadIdx.x; c < cols; c += BLOCK) squares += (x[c] - mean) * (x[c] - mean);
    float variance = block_sum(squares) / float(cols);
#endif
    float scale = 1 / sqrtf(variance + 1e-5f);
    for (int64_t c = threadIdx.x; c < cols; c += BLOCK)
        out[c] = (x[c] - mean) * scale * weight[c] + bias[c];
}

extern "C" void launch_gpu_implementation(float* out, const float* x, const float* norm_weight,
                                          const float* norm_bias, int64_t x_0, int64_t x_1,
                                          cudaStream_t stream) {
    layer_norm<<<unsigned(x_0), BLOCK, 0, stream>>>(out, x, norm_weight, norm_bias, x_1);
}
