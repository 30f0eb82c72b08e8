// task: core/level1/matmul_tall_skinny
// family: matmul naive
// kernelblaster-tune: BLOCK = 64, 256
// kernelblaster-tune: BY_ROW = 0, 1
#ifndef BLOCK
#define BLOCK 256
#endif
#ifndef BY_ROW
#define BY_ROW 0
#endif

// One output a thread, straight from global memory. Neighbouring lanes take neighbouring columns, or
// neighbouring rows: then nothing is coalesced.
__global__ void __launch_bounds__(BLOCK)
matmul(float* out, const float* a, const float* b, int64_t m, int64_t k, int64_t n) {
    int64_t i = blockIdx.x * int64_t(BLOCK) + threadIdx.x;
    if (i >= m * n) return;
    int64_t row = BY_ROW ? i % m : i / n, col = BY_ROW ? i / m : i % n;
    float sum = 0;
    for (int64_t s = 0; s < k; ++s) sum = fmaf(a[row * k + s], b[s * n + col], sum);
    out[row * n + col] = sum;
}

extern "C" void launch_gpu_implementation(float* out, const float* a, const float* b, int64_t a_0,
                                          int64_t a_1, int64_t b_1, cudaStream_t stream) {
    int64_t total = a_0 * b_1;
    matmul<<<unsigned((total + BLOCK - 1) / BLOCK), BLOCK, 0, stream>>>(out, a, b, a_0, a_1, b_1);
}
