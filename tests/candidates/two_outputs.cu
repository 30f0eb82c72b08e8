// task: core/level1/mean_variance
// family: two outputs
// plant: the variance is divided by the count less one

static const int THREADS = 256;

__device__ float block_sum(float v) {
    __shared__ float warps[THREADS / 32];
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    __syncthreads();
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    v = warps[threadIdx.x % (THREADS / 32)];
    for (int o = THREADS / 64; o > 0; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    return v;
}

__global__ void __launch_bounds__(THREADS)
mean_variance(float* means, float* variances, const float* x, int64_t cols) {
    x += blockIdx.x * cols;
    auto row = reinterpret_cast<const float4*>(x);
    int64_t vectors = cols % 4 == 0 ? cols / 4 : 0, first = vectors * 4 + threadIdx.x;
    float sum = 0;
    for (int64_t c = threadIdx.x; c < vectors; c += THREADS)
        sum += (row[c].x + row[c].y) + (row[c].z + row[c].w);
    for (int64_t c = first; c < cols; c += THREADS) sum += x[c];
    float mean = block_sum(sum) / cols;
    float squares = 0;
    for (int64_t c = threadIdx.x; c < vectors; c += THREADS) {
        float4 v = {row[c].x - mean, row[c].y - mean, row[c].z - mean, row[c].w - mean};
        squares += (v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w);
    }
    for (int64_t c = first; c < cols; c += THREADS) squares += (x[c] - mean) * (x[c] - mean);
    squares = block_sum(squares);
    if (threadIdx.x > 0) return;
    means[blockIdx.x] = mean;
#ifdef PLANTED_ERROR
    variances[blockIdx.x] = squares / (cols > 1 ? cols - 1 : 1);
#else
    variances[blockIdx.x] = squares / cols;
#endif
}

extern "C" void launch_gpu_implementation(float* out0, float* out1, const float* x, int64_t x_0,
                                          int64_t x_1, cudaStream_t stream) {
    mean_variance<<<unsigned(x_0), THREADS, 0, stream>>>(out0, out1, x, x_1);
}
