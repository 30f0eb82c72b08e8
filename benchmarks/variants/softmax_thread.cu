// task: core/level1/softmax
// family: softmax
// kernelblaster-tune: BLOCK = 32, 256
#ifndef BLOCK
#define BLOCK 32
#endif

// One thread a row: the lanes of a warp read from 32 different rows.
__global__ void softmax(float* out, const float* x, int64_t rows, int64_t cols) {
    int64_t row = blockIdx.x * int64_t(BLOCK) + threadIdx.x;
    if (row >= rows) return;
    x += row * cols;
    out += row * cols;
    float top = -INFINITY;
    double sum = 0;
    for (int64_t c = 0; c < cols; ++c) top = fmaxf(top, x[c]);
    for (int64_t c = 0; c < cols; ++c) sum += expf(x[c] - top);
    float scale = float(1 / sum);
    for (int64_t c = 0; c < cols; ++c) out[c] = expf(x[c] - top) * scale;
}

extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          cudaStream_t stream) {
    softmax<<<unsigned((x_0 + BLOCK - 1) / BLOCK), BLOCK, 0, stream>>>(out, x, x_0, x_1);
}
