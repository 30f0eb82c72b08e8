// task: core/level1/sum_rows
// family: row reduction
// kernelblaster-tune: BLOCK = 32, 128, 1024
// kernelblaster-tune: UNROLL = 1, 8
#ifndef BLOCK
#define BLOCK 128
#endif
#ifndef UNROLL
#define UNROLL 8
#endif

__device__ double block_sum(double v) {
    __shared__ double warps[32];
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x % 32 < BLOCK / 32 ? warps[threadIdx.x % 32] : 0;
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    return v;
}

// One block a row, UNROLL loads in flight. Each thread adds UNROLL values in float, then in double.
__global__ void __launch_bounds__(BLOCK) sum_rows(float* out, const float* x, int64_t cols) {
    x += blockIdx.x * cols;
    double total = 0;
    int64_t c = threadIdx.x;
    for (; c + (UNROLL - 1) * BLOCK < cols; c += UNROLL * BLOCK) {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < UNROLL; ++i) sum += x[c + i * BLOCK];
        total += sum;
    }
    for (; c < cols; c += BLOCK) total += x[c];
    total = block_sum(total);
    if (threadIdx.x == 0) out[blockIdx.x] = float(total);
}

extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          cudaStream_t stream) {
    sum_rows<<<unsigned(x_0), BLOCK, 0, stream>>>(out, x, x_1);
}
