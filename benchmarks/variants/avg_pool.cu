// task: core/level1/avg_pool2d
// family: average pool
// kernelblaster-tune: STAGED = 0, 1
// kernelblaster-tune: TALL = 8, 32
#ifndef STAGED
#define STAGED 1
#endif
#ifndef TALL
#define TALL 8
#endif

static const int WIDTH = 32, LINES = 8;

// 32 by TALL outputs a block, from a tile in shared memory or straight from the cache.
__global__ void avg_pool(float* out, const float* x, int64_t height, int64_t width) {
    __shared__ float tile[TALL + 2][WIDTH + 2];
    int64_t left = blockIdx.x * int64_t(WIDTH) - 1, top = blockIdx.y * int64_t(TALL) - 1;
    const float* p = x + blockIdx.z * height * width;
    auto at = [&](int64_t r, int64_t c) {
        return r >= 0 && r < height && c >= 0 && c < width ? p[r * width + c] : 0.0f;
    };
    if (STAGED) {
        for (int i = threadIdx.y; i < TALL + 2; i += LINES)
            for (int j = threadIdx.x; j < WIDTH + 2; j += WIDTH) tile[i][j] = at(top + i, left + j);
        __syncthreads();
    }
    for (int i = threadIdx.y; i < TALL; i += LINES) {
        int64_t r = top + 1 + i, c = left + 1 + threadIdx.x;
        if (r >= height || c >= width) continue;
        float sum = 0;
#pragma unroll
        for (int t = 0; t < 9; ++t)
            sum += STAGED ? tile[i + t / 3][threadIdx.x + t % 3] : at(r + t / 3 - 1, c + t % 3 - 1);
        out[(blockIdx.z * height + r) * width + c] = sum / 9;
    }
}

extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          int64_t x_2, int64_t x_3, cudaStream_t stream) {
    dim3 grid(unsigned((x_3 + WIDTH - 1) / WIDTH), unsigned((x_2 + TALL - 1) / TALL), unsigned(x_0 * x_1));
    avg_pool<<<grid, dim3(WIDTH, LINES), 0, stream>>>(out, x, x_2, x_3);
}
