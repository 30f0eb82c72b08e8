// task: core/level1/max_pool2d
// family: max pool
// kernelblaster-tune: WIDTH = 4, 32
// kernelblaster-tune: PLANES = 1, 8
#ifndef WIDTH
#define WIDTH 32
#endif
#ifndef PLANES
#define PLANES 1
#endif

static const int THREADS = 128, HEIGHT = THREADS / WIDTH, WINDOW = 3, STRIDE = 2, PADDING = 1;

// One output of PLANES planes a thread; narrow blocks read short pieces of many rows.
__global__ void max_pool(float* out, const float* x, int64_t planes, int64_t height, int64_t width,
                         int64_t out_height, int64_t out_width) {
    int64_t col = blockIdx.x * int64_t(WIDTH) + threadIdx.x;
    int64_t row = blockIdx.y * int64_t(HEIGHT) + threadIdx.y;
    if (col >= out_width || row >= out_height) return;
    for (int64_t plane = blockIdx.z * int64_t(PLANES); plane < (blockIdx.z + 1) * int64_t(PLANES); ++plane) {
        if (plane >= planes) return;
        const float* p = x + plane * height * width;
        float best = -INFINITY;
#pragma unroll
        for (int t = 0; t < WINDOW * WINDOW; ++t) {
            int64_t r = row * STRIDE - PADDING + t / WINDOW, c = col * STRIDE - PADDING + t % WINDOW;
            if (r >= 0 && r < height && c >= 0 && c < width) best = fmaxf(best, p[r * width + c]);
        }
        out[(plane * out_height + row) * out_width + col] = best;
    }
}

extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          int64_t x_2, int64_t x_3, int64_t out_2, int64_t out_3,
                                          cudaStream_t stream) {
    int64_t planes = x_0 * x_1;
    dim3 grid(unsigned((out_3 + WIDTH - 1) / WIDTH), unsigned((out_2 + HEIGHT - 1) / HEIGHT),
              unsigned((planes + PLANES - 1) / PLANES));
    max_pool<<<grid, dim3(WIDTH, HEIGHT), 0, stream>>>(out, x, planes, x_2, x_3, out_2, out_3);
}
