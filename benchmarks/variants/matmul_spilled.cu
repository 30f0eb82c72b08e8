// task: core/level1/matmul_square
// family: matmul register-blocked
// kernelblaster-tune: RESIDENT = 1, 4, 6
#ifndef RESIDENT
#define RESIDENT 1
#endif

static const int SIDE = 16, WORK = 8, TILE = SIDE * WORK, STEP = 8;

// 64 sums a thread. Asking for several resident blocks leaves too few registers, so they are spilled.
__global__ void __launch_bounds__(SIDE* SIDE, RESIDENT)
matmul(float* out, const float* a, const float* b, int64_t m, int64_t k, int64_t n) {
    __shared__ float left[STEP][TILE + 1], right[STEP][TILE];
    int64_t top = blockIdx.y * int64_t(TILE), first = blockIdx.x * int64_t(TILE);
    int thread = threadIdx.x, x = thread % SIDE, y = thread / SIDE;
    float sum[WORK][WORK] = {};
    for (int64_t start = 0; start < k; start += STEP) {
        for (int i = thread; i < TILE * STEP; i += SIDE * SIDE) {
            int64_t r = top + i / STEP, s = start + i % STEP;
            left[i % STEP][i / STEP] = r < m && s < k ? a[r * k + s] : 0;
            s = start + i / TILE;
            int64_t c = first + i % TILE;
            right[i / TILE][i % TILE] = s < k && c < n ? b[s * n + c] : 0;
        }
        __syncthreads();
#pragma unroll
        for (int s = 0; s < STEP; ++s)
#pragma unroll
            for (int i = 0; i < WORK; ++i)
#pragma unroll
                for (int j = 0; j < WORK; ++j)
                    sum[i][j] = fmaf(left[s][y + i * SIDE], right[s][x + j * SIDE], sum[i][j]);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < WORK; ++i)
#pragma unroll
        for (int j = 0; j < WORK; ++j) {
            int64_t r = top + y + i * SIDE, c = first + x + j * SIDE;
            if (r < m && c < n) out[r * n + c] = sum[i][j];
        }
}

extern "C" void launch_gpu_implementation(float* out, const float* a, const float* b, int64_t a_0,
                                          int64_t a_1, int64_t b_1, cudaStream_t stream) {
    dim3 grid(unsigned((b_1 + TILE - 1) / TILE), unsigned((a_0 + TILE - 1) / TILE));
    matmul<<<grid, SIDE * SIDE, 0, stream>>>(out, a, b, a_0, a_1, b_1);
}
