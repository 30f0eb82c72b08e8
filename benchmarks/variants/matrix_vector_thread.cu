// task: core/level1/matmul_vector
// family: matrix-vector
// kernelblaster-tune: BLOCK = 32, 256
#ifndef BLOCK
#define BLOCK 256
#endif

static const int RUN = 64;

// One thread a row, short sums in float, then double: the vector is shared by all lanes, the matrix read by none of them together.
__global__ void matrix_vector(float* out, const float* a, const float* x, int64_t rows, int64_t cols) {
    int64_t row = blockIdx.x * int64_t(BLOCK) + threadIdx.x;
    if (row >= rows) return;
    double total = 0;
    for (int64_t start = 0; start < cols; start += RUN) {
        int64_t end = start + RUN < cols ? start + RUN : cols;
        float sum = 0;
        for (int64_t c = start; c < end; ++c) sum = fmaf(a[row * cols + c], x[c], sum);
        total += sum;
    }
    out[row] = float(total);
}

extern "C" void launch_gpu_implementation(float* out, const float* a, const float* x, int64_t a_0,
                                          int64_t a_1, cudaStream_t stream) {
    matrix_vector<<<unsigned((a_0 + BLOCK - 1) / BLOCK), BLOCK, 0, stream>>>(out, a, x, a_0, a_1);
}
