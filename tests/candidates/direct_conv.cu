// task: core/level1/conv2d_3x3
// family: direct convolution
// plant: the right edge is off by one: the next row's first pixel stands where the padding should be

static const int WIDTH = 32, HEIGHT = 8;   // pixels a block
static const int FILTERS = 32, DEPTH = 4;  // output channels a block, input channels a step
static const int ROWS = 4, EACH = 8;       // pixels and output channels a thread

__global__ void __launch_bounds__(256)
conv_3x3(float* out, const float* x, const float* weight, const float* bias, int64_t channels,
         int64_t height, int64_t width, int64_t filters, int64_t across) {
    __shared__ float pixels[DEPTH][HEIGHT + 2][WIDTH + 2];
    __shared__ __align__(16) float taps[DEPTH][9][FILTERS];
    int64_t image = blockIdx.z, first = blockIdx.y * int64_t(FILTERS);
    int64_t left = blockIdx.x % across * WIDTH - 1, top = blockIdx.x / across * HEIGHT - 1;
    int thread = threadIdx.y * 32 + threadIdx.x;
    int row = threadIdx.y % 2 * ROWS, mine = threadIdx.y / 2 * EACH;
    float sum[ROWS][EACH] = {};
    for (int64_t channel = 0; channel < channels; channel += DEPTH) {
        for (int i = thread; i < DEPTH * (HEIGHT + 2) * (WIDTH + 2); i += 256) {
            int d = i / ((HEIGHT + 2) * (WIDTH + 2)), rest = i % ((HEIGHT + 2) * (WIDTH + 2));
            int64_t r = top + rest / (WIDTH + 2), c = left + rest % (WIDTH + 2), from = channel + d;
#ifdef PLANTED_ERROR
            bool inside = r >= 0 && r < height && c >= 0 && c <= width && from < channels;
            inside = inside && (c < width || r + 1 < height);  // stay in the plane
#else
            bool inside = r >= 0 && r < height && c >= 0 && c < width && from < channels;
#endif
            (&pixels[0][0][0])[i] =
                inside ? x[((image * channels + from) * height + r) * width + c] : 0;
        }
        for (int i = thread; i < DEPTH * 9 * FILTERS; i += 256) {
            int d = i / (9 * FILTERS), t = i / FILTERS % 9, f = i % FILTERS;
            bool inside = first + f < filters && channel + d < channels;
            taps[d][t][f] = inside ? weight[((first + f) * channels + channel + d) * 9 + t] : 0;
        }
        __syncthreads();
#pragma unroll 1
        for (int d = 0; d < DEPTH; ++d)
#pragma unroll
            for (int j = 0; j < 3; ++j) {
                float column[ROWS + 2];
#pragma unroll
                for (int i = 0; i < ROWS + 2; ++i) column[i] = pixels[d][row + i][threadIdx.x + j];
#pragma unroll
                for (int k = 0; k < 3; ++k) {
                    float tap[EACH];
                    auto from = reinterpret_cast<const float4*>(&taps[d][k * 3 + j][mine]);
                    *reinterpret_cast<float4*>(tap) = from[0];
                    *reinterpret_cast<float4*>(tap + 4) = from[1];
#pragma unroll
                    for (int i = 0; i < ROWS; ++i)
#pragma unroll
                        for (int f = 0; f < EACH; ++f)
                            sum[i][f] = fmaf(column[i + k], tap[f], sum[i][f]);
                }
            }
        __syncthreads();
    }
    int64_t c = left + 1 + threadIdx.x;
    if (c >= width) return;
#pragma unroll
    for (int f = 0; f < EACH; ++f) {
        int64_t filter = first + mine + f;
        if (filter >= filters) break;
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            int64_t r = top + 1 + row + i;
            if (r < height)
                out[((image * filters + filter) * height + r) * width + c] = sum[i][f] + bias[filter];
        }
    }
}

// Any odd filter size; the output is as large as the input.
__global__ void conv_any(float* out, const float* x, const float* weight, const float* bias,
                         int64_t total, int64_t channels, int64_t height, int64_t width,
                         int64_t filters, int64_t size) {
    int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
    if (i >= total) return;
    int64_t col = i % width, row = i / width % height, filter = i / width / height % filters;
    int64_t image = i / width / height / filters, margin = (size - 1) / 2;
    float sum = 0;
    for (int64_t d = 0; d < channels; ++d) {
        float part = 0;
        for (int64_t t = 0; t < size * size; ++t) {
            int64_t r = row + t / size - margin, c = col + t % size - margin;
            if (r >= 0 && r < height && c >= 0 && c < width)
                part += x[((image * channels + d) * height + r) * width + c] *
                        weight[(filter * channels + d) * size * size + t];
        }
        sum += part;
    }
    out[i] = sum + bias[filter];
}

extern "C" void launch_gpu_implementation(float* out, const float* x, const float* conv_weight,
                                          const float* conv_bias, int64_t x_0, int64_t x_1,
                                          int64_t x_2, int64_t x_3, int64_t conv_weight_0,
                                          int64_t conv_weight_2, cudaStream_t stream) {
    int64_t total = x_0 * conv_weight_0 * x_2 * x_3;
    if (conv_weight_2 == 3 && x_0 <= 65535) {
        int64_t across = (x_3 + WIDTH - 1) / WIDTH, down = (x_2 + HEIGHT - 1) / HEIGHT;
        dim3 grid(unsigned(across * down), unsigned((conv_weight_0 + FILTERS - 1) / FILTERS),
                  unsigned(x_0));
        conv_3x3<<<grid, dim3(32, 8), 0, stream>>>(out, x, conv_weight, conv_bias, x_1, x_2, x_3,
                                                   conv_weight_0, across);
    } else {
        conv_any<<<unsigned((total + 255) / 256), 256, 0, stream>>>(
            out, x, conv_weight, conv_bias, total, x_1, x_2, x_3, conv_weight_0, conv_weight_2);
    }
}
