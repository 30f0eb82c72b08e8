// task: core/level1/conv2d_depthwise
// family: depthwise convolution
// kernelblaster-tune: ROWS = 1, 4, 16
// kernelblaster-tune: WIDTH = 32, 128
#ifndef ROWS
#define ROWS 4
#endif
#ifndef WIDTH
#define WIDTH 32
#endif

static const int THREADS = 128, LINES = THREADS / WIDTH;

// A thread walks down ROWS outputs of one column; each input row is loaded once for the three outputs
// that it belongs to.
__global__ void strips(float* out, const float* x, const float* weight, const float* bias,
                       int64_t channels, int64_t height, int64_t width) {
    int64_t col = blockIdx.x * int64_t(WIDTH) + threadIdx.x;
    int64_t first = (blockIdx.y * int64_t(LINES) + threadIdx.y) * ROWS;
    int64_t plane = blockIdx.z, channel = plane % channels;
    if (col >= width || first >= height) return;
    const float* p = x + plane * height * width;
    float filter[9], start = bias[channel];
#pragma unroll
    for (int i = 0; i < 9; ++i) filter[i] = weight[channel * 9 + i];
    float sum[ROWS + 2];
#pragma unroll
    for (int i = 0; i < ROWS + 2; ++i) sum[i] = start;
#pragma unroll
    for (int i = -1; i <= ROWS; ++i) {
        int64_t r = first + i;
        if (r < 0 || r >= height) continue;
        float u = col > 0 ? p[r * width + col - 1] : 0, v = p[r * width + col];
        float w = col + 1 < width ? p[r * width + col + 1] : 0;
#pragma unroll
        for (int t = 0; t < 3; ++t) {
            int target = i + 1 - t;  // the output for which this is row t of its window
            if (target >= 0 && target < ROWS)
                sum[target] += u * filter[3 * t] + v * filter[3 * t + 1] + w * filter[3 * t + 2];
        }
    }
#pragma unroll
    for (int i = 0; i < ROWS; ++i)
        if (first + i < height) out[(plane * height + first + i) * width + col] = sum[i];
}

extern "C" void launch_gpu_implementation(float* out, const float* x, const float* conv_weight,
                                          const float* conv_bias, int64_t x_0, int64_t x_1, int64_t x_2,
                                          int64_t x_3, int64_t, int64_t, cudaStream_t stream) {
    int64_t tall = LINES * ROWS;
    dim3 grid(unsigned((x_3 + WIDTH - 1) / WIDTH), unsigned((x_2 + tall - 1) / tall), unsigned(x_0 * x_1));
    strips<<<grid, dim3(WIDTH, LINES), 0, stream>>>(out, x, conv_weight, conv_bias, x_1, x_2, x_3);
}
