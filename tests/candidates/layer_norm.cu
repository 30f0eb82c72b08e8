// task: core/level1/layer_norm
// family: layer norm
// plant: the epsilon is added to the standard deviation instead of the variance

static const int THREADS = 256;

__device__ float block_sum(float v) {
    __shared__ float warps[THREADS / 32];
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    __syncthreads();  // the last call's values may still be needed
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    v = warps[threadIdx.x % (THREADS / 32)];
    for (int o = THREADS / 64; o > 0; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    return v;
}

__global__ void __launch_bounds__(THREADS)
layer_norm(float* out, const float* x, const float* weight, const float* bias, int64_t cols) {
    x += blockIdx.x * cols;
    out += blockIdx.x * cols;
    bool wide = cols % 4 == 0;
    auto row = reinterpret_cast<const float4*>(x);
    int64_t vectors = wide ? cols / 4 : 0, first = wide ? cols : int64_t(threadIdx.x);
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
    float variance = block_sum(squares) / cols;
#ifdef PLANTED_ERROR
    float scale = 1 / (sqrtf(variance) + 1e-5f);
#else
    float scale = rsqrtf(variance + 1e-5f);
#endif

    for (int64_t c = threadIdx.x; c < vectors; c += THREADS) {
        float4 v = row[c], w = reinterpret_cast<const float4*>(weight)[c];
        float4 b = reinterpret_cast<const float4*>(bias)[c];
        reinterpret_cast<float4*>(out)[c] = {
            (v.x - mean) * scale * w.x + b.x, (v.y - mean) * scale * w.y + b.y,
            (v.z - mean) * scale * w.z + b.z, (v.w - mean) * scale * w.w + b.w};
    }
    for (int64_t c = first; c < cols; c += THREADS)
        out[c] = (x[c] - mean) * scale * weight[c] + bias[c];
}

extern "C" void launch_gpu_implementation(float* out, const float* x, const float* norm_weight,
                                          const float* norm_bias, int64_t x_0, int64_t x_1,
                                          cudaStream_t stream) {
    layer_norm<<<unsigned(x_0), THREADS, 0, stream>>>(out, x, norm_weight, norm_bias, x_1);
}
