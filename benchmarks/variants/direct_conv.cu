// task: core/level1/conv2d_3x3
// family: direct convolution
// kernelblaster-tune: MAPS = 1, 4, 16
// kernelblaster-tune: STAGED = 0, 1
#ifndef MAPS
#define MAPS 4
#endif
#ifndef STAGED
#define STAGED 1
#endif

static const int THREADS = 128;

// One pixel of MAPS output maps a thread. The filters come from shared memory, a channel at a time,
// or straight from the cache.
__global__ void __launch_bounds__(THREADS)
conv(float* out, const float* x, const float* weight, const float* bias, int64_t channels, int64_t height,
     int64_t width, int64_t maps) {
    __shared__ float filters[MAPS * 9];
    int64_t pixel = blockIdx.x * int64_t(THREADS) + threadIdx.x, first = blockIdx.y * int64_t(MAPS);
    int64_t row = pixel / width, col = pixel % width;
    bool inside = row < height;
    float sum[MAPS];
#pragma unroll
    for (int m = 0; m < MAPS; ++m) sum[m] = first + m < maps ? bias[first + m] : 0;
    for (int64_t channel = 0; channel < channels; ++channel) {
        const float* p = x + (blockIdx.z * channels + channel) * height * width;
        if (STAGED) {
            __syncthreads();
            for (int i = threadIdx.x; i < MAPS * 9; i += THREADS) {
                int64_t m = first + i / 9;
                filters[i] = m < maps ? weight[(m * channels + channel) * 9 + i % 9] : 0;
            }
            __syncthreads();
        }
        if (!inside) continue;
#pragma unroll
        for (int t = 0; t < 9; ++t) {
            int64_t r = row + t / 3 - 1, c = col + t % 3 - 1;
            float v = r >= 0 && r < height && c >= 0 && c < width ? p[r * width + c] : 0;
#pragma unroll
            for (int m = 0; m < MAPS; ++m) {
                if (STAGED)
                    sum[m] = fmaf(v, filters[m * 9 + t], sum[m]);
                else if (first + m < maps)
                    sum[m] = fmaf(v, weight[((first + m) * channels + channel) * 9 + t], sum[m]);
            }
        }
    }
    if (!inside) return;
#pragma unroll
    for (int m = 0; m < MAPS; ++m)
        if (first + m < maps) out[((blockIdx.z * maps + first + m) * height + row) * width + col] = sum[m];
}

extern "C" void launch_gpu_implementation(float* out, const float* x, const float* conv_weight,
                                          const float* conv_bias, int64_t x_0, int64_t x_1, int64_t x_2,
                                          int64_t x_3, int64_t conv_weight_0, int64_t,
                                          cudaStream_t stream) {
    dim3 grid(unsigned((x_2 * x_3 + THREADS - 1) / THREADS), unsigned((conv_weight_0 + MAPS - 1) / MAPS),
              unsigned(x_0));
    conv<<<grid, THREADS, 0, stream>>>(out, x, conv_weight, conv_bias, x_1, x_2, x_3, conv_weight_0);
}
