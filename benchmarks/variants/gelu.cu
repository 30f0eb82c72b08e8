// task: core/level1/gelu
// family: pointwise
// kernelblaster-tune: WIDE = 0, 1
// kernelblaster-tune: EXACT = 0, 1
#ifndef WIDE
#define WIDE 1
#endif
#ifndef EXACT
#define EXACT 0
#endif

static const int THREADS = 256;

// The error function in float or in double: bound by memory or by arithmetic.
__device__ float gelu(float x) {
    if (EXACT) return float(0.5 * double(x) * (1 + erf(double(x) * 0.70710678118654752)));
    return 0.5f * x * (1 + erff(x * 0.70710678f));
}

__global__ void apply(float* out, const float* x, int64_t n) {
    int64_t i = blockIdx.x * int64_t(THREADS) + threadIdx.x;
    if (!WIDE) {
        if (i < n) out[i] = gelu(x[i]);
        return;
    }
    if (4 * i + 4 <= n) {
        float4 v = reinterpret_cast<const float4*>(x)[i];
        reinterpret_cast<float4*>(out)[i] = {gelu(v.x), gelu(v.y), gelu(v.z), gelu(v.w)};
    } else {
        for (int64_t j = 4 * i; j < n; ++j) out[j] = gelu(x[j]);
    }
}

extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          cudaStream_t stream) {
    int64_t n = x_0 * x_1, share = THREADS * (WIDE ? 4 : 1);
    apply<<<unsigned((n + share - 1) / share), THREADS, 0, stream>>>(out, x, n);
}
