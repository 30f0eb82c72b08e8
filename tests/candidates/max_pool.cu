// task: core/level1/max_pool2d
// family: max pool
// plant: the padding counts as zeros, so windows at the edge are never negative

static const int WINDOW = 3, STRIDE = 2, PADDING = 1;

__global__ void max_pool(float* out, const float* x, int64_t planes, int64_t height, int64_t width,
                         int64_t out_height, int64_t out_width) {
    int64_t col = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    int64_t row = blockIdx.y * int64_t(blockDim.y) + threadIdx.y;
    if (col >= out_width || row >= out_height) return;
    int64_t top = row * STRIDE - PADDING, left = col * STRIDE - PADDING;
    for (int64_t plane = blockIdx.z; plane < planes; plane += gridDim.z) {
        const float* p = x + plane * height * width;
        float best = -INFINITY;
#pragma unroll
        for (int i = 0; i < WINDOW; ++i)
#pragma unroll
            for (int j = 0; j < WINDOW; ++j) {
                int64_t r = top + i, c = left + j;
                bool inside = r >= 0 && r < height && c >= 0 && c < width;
#ifdef PLANTED_ERROR
                best = fmaxf(best, inside ? p[r * width + c] : 0);
#else
                if (inside) best = fmaxf(best, p[r * width + c]);
#endif
            }
        out[(plane * out_height + row) * out_width + col] = best;
    }
}

extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          int64_t x_2, int64_t x_3, int64_t out_2, int64_t out_3,
                                          cudaStream_t stream) {
    int64_t planes = x_0 * x_1;
    dim3 grid(unsigned((out_3 + 31) / 32), unsigned((out_2 + 7) / 8),
              unsigned(planes < 65535 ? planes : 65535));
    max_pool<<<grid, dim3(32, 8), 0, stream>>>(out, x, planes, x_2, x_3, out_2, out_3);
}
