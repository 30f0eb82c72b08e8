// task: core/level1/matmul_vector
// family: matrix vector
// plant: the last column is left out where rows are no multiple of four

// A warp a row. Four running sums a lane keep each of them short.
__global__ void matrix_vector(float* out, const float* a, const float* x, int64_t rows, int64_t cols) {
    int64_t row = blockIdx.x * int64_t(blockDim.y) + threadIdx.y;
    if (row >= rows) return;
    const float* p = a + row * cols;
    float sum[4] = {};
    if (cols % 4 == 0) {
#pragma unroll 4
        for (int64_t c = threadIdx.x; c < cols / 4; c += 32) {
            float4 u = reinterpret_cast<const float4*>(p)[c];
            float4 v = reinterpret_cast<const float4*>(x)[c];
            sum[0] += u.x * v.x;
            sum[1] += u.y * v.y;
            sum[2] += u.z * v.z;
            sum[3] += u.w * v.w;
        }
    } else {
        int64_t end = cols, c = threadIdx.x;
#ifdef PLANTED_ERROR
        if (cols > 1) end = cols - 1;
#endif
        for (; c + 96 < end; c += 128)
#pragma unroll
            for (int i = 0; i < 4; ++i) sum[i] += p[c + 32 * i] * x[c + 32 * i];
        for (; c < end; c += 32) sum[0] += p[c] * x[c];
    }
    float total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    for (int o = 16; o > 0; o /= 2) total += __shfl_xor_sync(~0u, total, o);
    if (threadIdx.x == 0) out[row] = total;
}

extern "C" void launch_gpu_implementation(float* out, const float* a, const float* x, int64_t a_0,
                                          int64_t a_1, cudaStream_t stream) {
    matrix_vector<<<unsigned((a_0 + 3) / 4), dim3(32, 4), 0, stream>>>(out, a, x, a_0, a_1);
}
