// task: core/level1/cumsum
// family: scan
// kernelblaster-tune: BLOCK = 32, 128
#ifndef BLOCK
#define BLOCK 32
#endif

// One thread a row, from left to right.
__global__ void cumsum(float* out, const float* x, int64_t rows, int64_t cols) {
    int64_t row = blockIdx.x * int64_t(BLOCK) + threadIdx.x;
    if (row >= rows) return;
    double sum = 0;
    for (int64_t c = 0; c < cols; ++c) {
        sum += x[row * cols + c];
        out[row * cols + c] = float(sum);
    }
}

extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          cudaStream_t stream) {
    cumsum<<<unsigned((x_0 + BLOCK - 1) / BLOCK), BLOCK, 0, stream>>>(out, x, x_0, x_1);
}
