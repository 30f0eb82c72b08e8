// task: core/level1/softmax
// family: softmax
// plant: rows that are no multiple of four lose the elements beyond the last whole stride of the block

static const int THREADS = 512;

// The maximum of some values and the sum of their exponentials relative to it.
struct Partial {
    float top, sum;
};

__device__ Partial merge(Partial a, Partial b) {
    float top = fmaxf(a.top, b.top);
    if (top == -INFINITY) return {top, 0};
    return {top, a.sum * expf(a.top - top) + b.sum * expf(b.top - top)};
}

__device__ void include(Partial& p, float v) {
    if (v > p.top) {
        p.sum = p.sum * expf(p.top - v) + 1;
        p.top = v;
    } else {
        p.sum += expf(v - p.top);
    }
}

__device__ Partial block_merge(Partial p) {
    __shared__ Partial warps[THREADS / 32];
    for (int o = 16; o > 0; o /= 2)
        p = merge(p, {__shfl_xor_sync(~0u, p.top, o), __shfl_xor_sync(~0u, p.sum, o)});
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = p;
    __syncthreads();
    p = warps[threadIdx.x % (THREADS / 32)];
    for (int o = THREADS / 64; o > 0; o /= 2)
        p = merge(p, {__shfl_xor_sync(~0u, p.top, o), __shfl_xor_sync(~0u, p.sum, o)});
    return p;
}

// One block a row, read twice: the second time it comes from the cache.
__global__ void __launch_bounds__(THREADS) softmax(float* out, const float* x, int64_t cols) {
    x += blockIdx.x * cols;
    out += blockIdx.x * cols;
    Partial p = {-INFINITY, 0};
    bool wide = cols % 4 == 0;
    if (wide) {
        for (int64_t c = threadIdx.x; c < cols / 4; c += THREADS) {
            float4 v = reinterpret_cast<const float4*>(x)[c];
            float top = fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w));
            if (top > p.top) {
                p.sum *= expf(p.top - top);
                p.top = top;
            }
            p.sum += (expf(v.x - p.top) + expf(v.y - p.top)) + (expf(v.z - p.top) + expf(v.w - p.top));
        }
    } else {
        int64_t end = cols;
#ifdef PLANTED_ERROR
        if (cols > THREADS) end = cols / THREADS * THREADS;
#endif
        for (int64_t c = threadIdx.x; c < end; c += THREADS) include(p, x[c]);
    }
    p = block_merge(p);
    float scale = 1 / p.sum;
    if (wide)
        for (int64_t c = threadIdx.x; c < cols / 4; c += THREADS) {
            float4 v = reinterpret_cast<const float4*>(x)[c];
            reinterpret_cast<float4*>(out)[c] = {expf(v.x - p.top) * scale, expf(v.y - p.top) * scale,
                                                 expf(v.z - p.top) * scale, expf(v.w - p.top) * scale};
        }
    else
        for (int64_t c = threadIdx.x; c < cols; c += THREADS) out[c] = expf(x[c] - p.top) * scale;
}

extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          cudaStream_t stream) {
    softmax<<<unsigned(x_0), THREADS, 0, stream>>>(out, x, x_1);
}
