// task: core/level1/transpose_last
// family: transpose
// kernelblaster-tune: LINES = 4, 32
// kernelblaster-tune: PAD = 0, 1
#ifndef LINES
#define LINES 8
#endif
#ifndef PAD
#define PAD 1
#endif

static const int TILE = 32;

// 32 by 32 values a block through shared memory. Without padding a column lies in one bank.
__global__ void transpose(float* out, const float* x, int64_t batch, int64_t rows, int64_t cols) {
    __shared__ float tile[TILE][TILE + PAD];
    int64_t left = blockIdx.x * int64_t(TILE), top = blockIdx.y * int64_t(TILE);
    for (int64_t b = blockIdx.z; b < batch; b += gridDim.z) {
        const float* from = x + b * rows * cols;
        float* to = out + b * rows * cols;
        for (int i = threadIdx.y; i < TILE; i += LINES)
            if (top + i < rows && left + threadIdx.x < cols)
                tile[i][threadIdx.x] = from[(top + i) * cols + left + threadIdx.x];
        __syncthreads();
        for (int i = threadIdx.y; i < TILE; i += LINES)
            if (left + i < cols && top + threadIdx.x < rows)
                to[(left + i) * rows + top + threadIdx.x] = tile[threadIdx.x][i];
        __syncthreads();
    }
}

extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          int64_t x_2, cudaStream_t stream) {
    dim3 grid(unsigned((x_2 + TILE - 1) / TILE), unsigned((x_1 + TILE - 1) / TILE),
              unsigned(x_0 < 65535 ? x_0 : 65535));
    transpose<<<grid, dim3(TILE, LINES), 0, stream>>>(out, x, x_0, x_1, x_2);
}
