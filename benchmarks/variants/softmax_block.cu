// task: core/level1/softmax
// family: softmax
// kernelblaster-tune: BLOCK = 64, 256, 1024
// kernelblaster-tune: PASSES = 2, 3
#ifndef BLOCK
#define BLOCK 256
#endif
#ifndef PASSES
#define PASSES 3
#endif

__device__ float block_max(float v) {
    __shared__ float warps[32];
    for (int o = 16; o > 0; o /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x % 32 < BLOCK / 32 ? warps[threadIdx.x % 32] : -INFINITY;
    for (int o = 16; o > 0; o /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, o));
    return v;
}

__device__ float block_sum(float v) {
    __shared__ float warps[32];
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x % 32 < BLOCK / 32 ? warps[threadIdx.x % 32] : 0;
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    return v;
}

// One block a row. With two passes the maximum and the sum are found together, at the price of a
// correction whenever the maximum grows.
__global__ void __launch_bounds__(BLOCK) softmax(float* out, const float* x, int64_t cols) {
    x += blockIdx.x * cols;
    out += blockIdx.x * cols;
    float top = -INFINITY, sum = 0;
#if PASSES == 2
    for (int64_t c = threadIdx.x; c < cols; c += BLOCK) {
        float v = x[c];
        if (v > top) {
            sum *= expf(top - v);
            top = v;
        }
        sum += expf(v - top);
    }
    float whole = block_max(top);
    sum = top == -INFINITY ? 0 : sum * expf(top - whole);
    top = whole;
#else
    for (int64_t c = threadIdx.x; c < cols; c += BLOCK) top = fmaxf(top, x[c]);
    top = block_max(top);
    for (int64_t c = threadIdx.x; c < cols; c += BLOCK) sum += expf(x[c] - top);
#endif
    float scale = 1 / block_sum(sum);
    for (int64_t c = threadIdx.x; c < cols; c += BLOCK) out[c] = expf(x[c] - top) * scale;
}

extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          cudaStream_t stream) {
    softmax<<<unsigned(x_0), BLOCK, 0, stream>>>(out, x, x_1);
}
