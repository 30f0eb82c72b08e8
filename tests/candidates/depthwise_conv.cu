// task: core/level1/conv2d_depthwise
// family: depthwise convolution
// plant: beyond the right edge the last pixel is repeated, where the padding should be zero

static const int WIDTH = 32, HEIGHT = 32, LINES = 8;

// 32 by 32 pixels of one plane a block, staged with a margin of one; four pixels a thread.
__global__ void depthwise_3x3(float* out, const float* x, const float* weight, const float* bias,
                              int64_t planes, int64_t channels, int64_t height, int64_t width) {
    __shared__ float tile[HEIGHT + 2][WIDTH + 2];
    int64_t left = blockIdx.x * int64_t(WIDTH) - 1, top = blockIdx.y * int64_t(HEIGHT) - 1;
    for (int64_t plane = blockIdx.z; plane < planes; plane += gridDim.z) {
        const float* p = x + plane * height * width;
        for (int i = threadIdx.y; i < HEIGHT + 2; i += LINES)
            for (int j = threadIdx.x; j < WIDTH + 2; j += WIDTH) {
                int64_t r = top + i, c = left + j;
#ifdef PLANTED_ERROR
                if (c == width) c = width - 1;
#endif
                bool inside = r >= 0 && r < height && c >= 0 && c < width;
                tile[i][j] = inside ? p[r * width + c] : 0;
            }
        __syncthreads();
        int64_t channel = plane % channels;
        float filter[9], start = bias[channel];
#pragma unroll
        for (int i = 0; i < 9; ++i) filter[i] = weight[channel * 9 + i];
        for (int i = threadIdx.y; i < HEIGHT; i += LINES) {
            float sum = start;
#pragma unroll
            for (int t = 0; t < 9; ++t) sum += tile[i + t / 3][threadIdx.x + t % 3] * filter[t];
            int64_t r = top + 1 + i, c = left + 1 + threadIdx.x;
            if (r < height && c < width) out[(plane * height + r) * width + c] = sum;
        }
        __syncthreads();
    }
}

// Any odd filter size; the output is as large as the input.
__global__ void depthwise_any(float* out, const float* x, const float* weight, const float* bias,
                              int64_t total, int64_t channels, int64_t height, int64_t width,
                              int64_t size) {
    int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i >= total) return;
    int64_t col = i % width, row = i / width % height, plane = i / width / height;
    int64_t channel = plane % channels, margin = (size - 1) / 2;
    float sum = bias[channel];
    for (int64_t t = 0; t < size * size; ++t) {
        int64_t r = row + t / size - margin, c = col + t % size - margin;
        if (r >= 0 && r < height && c >= 0 && c < width)
            sum += x[(plane * height + r) * width + c] * weight[channel * size * size + t];
    }
    out[i] = sum;
}

extern "C" void launch_gpu_implementation(float* out, const float* x, const float* conv_weight,
                                          const float* conv_bias, int64_t x_0, int64_t x_1,
                                          int64_t x_2, int64_t x_3, int64_t, int64_t conv_weight_2,
                                          cudaStream_t stream) {
    int64_t planes = x_0 * x_1, total = planes * x_2 * x_3;
    if (conv_weight_2 == 3) {
        dim3 grid(unsigned((x_3 + WIDTH - 1) / WIDTH), unsigned((x_2 + HEIGHT - 1) / HEIGHT),
                  unsigned(planes < 65535 ? planes : 65535));
        depthwise_3x3<<<grid, dim3(WIDTH, LINES), 0, stream>>>(out, x, conv_weight, conv_bias, planes,
                                                               x_1, x_2, x_3);
    } else {
        depthwise_any<<<unsigned((total + 255) / 256), 256, 0, stream>>>(
            out, x, conv_weight, conv_bias, total, x_1, x_2, x_3, conv_weight_2);
    }
}
