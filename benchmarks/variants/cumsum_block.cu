// task: core/level1/cumsum
// family: scan
// kernelblaster-tune: BLOCK = 64, 256, 1024
// kernelblaster-tune: ITEMS = 1, 4
#ifndef BLOCK
#define BLOCK 256
#endif
#ifndef ITEMS
#define ITEMS 4
#endif

// One block a row, BLOCK * ITEMS values at a time, each thread ITEMS neighbours; the carry is double.
__global__ void __launch_bounds__(BLOCK) cumsum(float* out, const float* x, int64_t cols) {
    __shared__ float warps[BLOCK / 32];
    x += blockIdx.x * cols;
    out += blockIdx.x * cols;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    double carry = 0;
    for (int64_t start = 0; start < cols; start += BLOCK * ITEMS) {
        int64_t first = start + threadIdx.x * ITEMS;
        float mine[ITEMS], sum = 0;
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            sum += first + i < cols ? x[first + i] : 0;
            mine[i] = sum;
        }
        float running = sum;
        for (int o = 1; o < 32; o *= 2) {
            float below = __shfl_up_sync(~0u, running, o);
            if (lane >= o) running += below;
        }
        if (lane == 31) warps[warp] = running;
        __syncthreads();
        float before = running - sum, whole = 0;
        for (int w = 0; w < BLOCK / 32; ++w) {
            if (w == warp) before += whole;
            whole += warps[w];
        }
#pragma unroll
        for (int i = 0; i < ITEMS; ++i)
            if (first + i < cols) out[first + i] = float(carry + (before + mine[i]));
        carry += whole;
        __syncthreads();
    }
}

extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          cudaStream_t stream) {
    cumsum<<<unsigned(x_0), BLOCK, 0, stream>>>(out, x, x_1);
}
