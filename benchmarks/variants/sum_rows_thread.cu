// task: core/level1/sum_rows
// family: row reduction
// kernelblaster-tune: WIDE = 0, 1
#ifndef WIDE
#define WIDE 0
#endif

static const int THREADS = 64;

// One thread a row: neighbouring lanes are a whole row apart.
__global__ void sum_rows(float* out, const float* x, int64_t rows, int64_t cols) {
    int64_t row = blockIdx.x * int64_t(THREADS) + threadIdx.x;
    if (row >= rows) return;
    x += row * cols;
    int64_t quads = WIDE && cols % 4 == 0 ? cols / 4 : 0;
    double total = 0;
    for (int64_t c = 0; c < quads; ++c) {
        float4 v = reinterpret_cast<const float4*>(x)[c];
        total += (v.x + v.y) + (v.z + v.w);
    }
    for (int64_t c = 4 * quads; c < cols; ++c) total += x[c];
    out[row] = float(total);
}

extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          cudaStream_t stream) {
    sum_rows<<<unsigned((x_0 + THREADS - 1) / THREADS), THREADS, 0, stream>>>(out, x, x_0, x_1);
}
