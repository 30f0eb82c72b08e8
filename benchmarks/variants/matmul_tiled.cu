// task: core/level1/matmul_tall_skinny
// family: matmul tiled
// kernelblaster-tune: TILE = 8, 16, 32
// kernelblaster-tune: PAD = 0, 1
#ifndef TILE
#define TILE 16
#endif
#ifndef PAD
#define PAD 1
#endif

// One output a thread, both factors staged in shared memory. The left one is kept transposed: without
// padding, the lanes that store a row of it all hit one bank.
__global__ void __launch_bounds__(TILE * TILE)
matmul(float* out, const float* a, const float* b, int64_t m, int64_t k, int64_t n) {
    __shared__ float left[TILE][TILE + PAD], right[TILE][TILE + PAD];
    int x = threadIdx.x, y = threadIdx.y;
    int64_t row = blockIdx.x * int64_t(TILE) + y, col = blockIdx.y * int64_t(TILE) + x;
    float sum = 0;
    for (int64_t start = 0; start < k; start += TILE) {
        left[x][y] = row < m && start + x < k ? a[row * k + start + x] : 0;
        right[y][x] = start + y < k && col < n ? b[(start + y) * n + col] : 0;
        __syncthreads();
#pragma unroll
        for (int s = 0; s < TILE; ++s) sum = fmaf(left[s][y], right[s][x], sum);
        __syncthreads();
    }
    if (row < m && col < n) out[row * n + col] = sum;
}

extern "C" void launch_gpu_implementation(float* out, const float* a, const float* b, int64_t a_0,
                                          int64_t a_1, int64_t b_1, cudaStream_t stream) {
    dim3 grid(unsigned((a_0 + TILE - 1) / TILE), unsigned((b_1 + TILE - 1) / TILE));
    matmul<<<grid, dim3(TILE, TILE), 0, stream>>>(out, a, b, a_0, a_1, b_1);
}
