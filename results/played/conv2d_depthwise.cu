// Depthwise 2D convolution, stride 1, padding 1, K x K filter per channel (K = conv_weight_2 = 3).
// K = 3: a warp computes 128 columns of kRows output rows, a lane 4 of the columns; every input row is
// loaded once into registers and used for its three output rows, and the halo columns come from the
// neighbouring lanes. Other K: one thread per output element.

static constexpr int kPad = 1;
static constexpr int kThreads = 256;
static constexpr int kWarps = kThreads / 32;   // warps a block, one above the other
static constexpr int kRows = 7;                // output rows a warp
static constexpr int kCols = 4;                // columns a lane
static constexpr int kStrip = 32 * kCols;      // columns a warp

template <bool VEC>   // VEC: width is a multiple of 4, so every row is aligned to 16 bytes
__global__ void __launch_bounds__(kThreads, 3)
depthwise_kernel(float* __restrict__ out, const float* __restrict__ x,
                 const float* __restrict__ w, const float* __restrict__ bias,
                 unsigned channels, int height, int width, unsigned row_tiles, unsigned strips)
{
    const unsigned tiles = row_tiles * strips;
    const unsigned plane = blockIdx.x / tiles;
    const unsigned tile = blockIdx.x - plane * tiles;
    const unsigned row_tile = tile / strips;
    const unsigned strip = tile - row_tile * strips;

    const int lane = threadIdx.x;
    const int h0 = (int)((row_tile * kWarps + threadIdx.y) * kRows);   // first output row of the warp
    if (h0 >= height) return;                  // the same for the whole warp
    const int col = (int)(strip * kStrip) + lane * kCols;

    const unsigned c = plane % channels;
    const int64_t base = (int64_t)plane * ((int64_t)height * width);
    // Input row i of the warp is row h0 - kPad + i of the plane.
    const float* xp = x + base + (int64_t)(h0 - kPad) * width + col;
    const float* wp = w + (int64_t)c * 9;

    float v[kRows + 2][kCols];
#pragma unroll
    for (int i = 0; i < kRows + 2; ++i) {
        const int ih = h0 - kPad + i;
        const bool row_ok = ih >= 0 && ih < height;
        const float* row = xp + (int64_t)i * width;
        if (VEC) {
            float4 t = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (row_ok && col < width) t = *reinterpret_cast<const float4*>(row);
            v[i][0] = t.x; v[i][1] = t.y; v[i][2] = t.z; v[i][3] = t.w;
        } else {
#pragma unroll
            for (int j = 0; j < kCols; ++j) {
                v[i][j] = 0.0f;
                if (row_ok && col + j < width) v[i][j] = row[j];
            }
        }
    }

    float wr[9];
#pragma unroll
    for (int i = 0; i < 9; ++i) wr[i] = wp[i];
    const float b = bias[c];

    float acc[kRows][kCols];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
        for (int j = 0; j < kCols; ++j) acc[r][j] = b;

    float* op = out + base + (int64_t)h0 * width + col;

#pragma unroll
    for (int i = 0; i < kRows + 2; ++i) {
        float left = __shfl_up_sync(0xffffffffu, v[i][kCols - 1], 1);
        float right = __shfl_down_sync(0xffffffffu, v[i][0], 1);
        if (lane == 0) left = 0.0f;
        if (lane == 31) right = 0.0f;
        if (strips > 1) {                      // neighbours of the warp's span
            const int ih = h0 - kPad + i;
            if (ih >= 0 && ih < height) {
                const float* row = xp + (int64_t)i * width;
                if (lane == 0 && col > 0) left = row[-1];
                if (lane == 31 && col + kCols < width) right = row[kCols];
            }
        }
        const float s[kCols + 2] = {left, v[i][0], v[i][1], v[i][2], v[i][3], right};
#pragma unroll
        for (int k = 0; k < 3; ++k) {
            const int r = i - k;               // input row i is tap row k of output row r
            if (r >= 0 && r < kRows) {
#pragma unroll
                for (int j = 0; j < kCols; ++j) {
                    acc[r][j] = fmaf(s[j], wr[k * 3], acc[r][j]);
                    acc[r][j] = fmaf(s[j + 1], wr[k * 3 + 1], acc[r][j]);
                    acc[r][j] = fmaf(s[j + 2], wr[k * 3 + 2], acc[r][j]);
                }
            }
        }
        if (i >= 2) {                          // output row i - 2 is complete
            const int r = i >= 2 ? i - 2 : 0;
            if (h0 + r < height) {
                float* orow = op + (int64_t)r * width;
                if (VEC) {
                    if (col < width)
                        *reinterpret_cast<float4*>(orow) =
                            make_float4(acc[r][0], acc[r][1], acc[r][2], acc[r][3]);
                } else {
#pragma unroll
                    for (int j = 0; j < kCols; ++j)
                        if (col + j < width) orow[j] = acc[r][j];
                }
            }
        }
    }
}

__global__ void __launch_bounds__(kThreads)
depthwise_generic_kernel(float* __restrict__ out, const float* __restrict__ x,
                         const float* __restrict__ w, const float* __restrict__ bias,
                         int channels, int height, int width, int K, int64_t tiles_per_plane)
{
    const int64_t plane = (int64_t)blockIdx.x / tiles_per_plane;
    const int64_t tile = (int64_t)blockIdx.x - plane * tiles_per_plane;
    const int64_t hw = (int64_t)height * width;
    const int64_t p = tile * kThreads + threadIdx.x;
    if (p >= hw) return;

    const int c = (int)(plane % channels);
    const int h = (int)(p / width);
    const int col = (int)(p - (int64_t)h * width);

    const float* xp = x + plane * hw;
    const float* wp = w + (int64_t)c * K * K;

    float acc = bias[c];
    for (int i = 0; i < K; ++i) {
        const int ih = h + i - kPad;
        if (ih < 0 || ih >= height) continue;
        for (int j = 0; j < K; ++j) {
            const int iw = col + j - kPad;
            if (iw < 0 || iw >= width) continue;
            acc = fmaf(xp[(int64_t)ih * width + iw], wp[i * K + j], acc);
        }
    }
    out[plane * hw + p] = acc;
}

extern "C" void launch_gpu_implementation(
    float* out,
    const float* x,
    const float* conv_weight, const float* conv_bias,
    int64_t x_0, int64_t x_1, int64_t x_2, int64_t x_3, int64_t conv_weight_1, int64_t conv_weight_2,
    cudaStream_t stream)
{
    (void)conv_weight_1;   // one input channel a group
    const int64_t planes = x_0 * x_1;
    const int64_t hw = x_2 * x_3;
    if (planes <= 0 || hw <= 0) return;
    if (conv_weight_2 == 3) {
        const int64_t row_tiles = (x_2 + kWarps * kRows - 1) / (kWarps * kRows);
        const int64_t strips = (x_3 + kStrip - 1) / kStrip;
        const unsigned blocks = (unsigned)(planes * row_tiles * strips);
        const dim3 block(32, kWarps);
        if (x_3 % 4 == 0)
            depthwise_kernel<true><<<blocks, block, 0, stream>>>(
                out, x, conv_weight, conv_bias, (unsigned)x_1, (int)x_2, (int)x_3,
                (unsigned)row_tiles, (unsigned)strips);
        else
            depthwise_kernel<false><<<blocks, block, 0, stream>>>(
                out, x, conv_weight, conv_bias, (unsigned)x_1, (int)x_2, (int)x_3,
                (unsigned)row_tiles, (unsigned)strips);
    } else {
        const int64_t tiles = (hw + kThreads - 1) / kThreads;
        const unsigned blocks = (unsigned)(planes * tiles);
        depthwise_generic_kernel<<<blocks, kThreads, 0, stream>>>(
            out, x, conv_weight, conv_bias, (int)x_1, (int)x_2, (int)x_3, (int)conv_weight_2, tiles);
    }
}
