// task: core/level1/softmax
// family: softmax
// kernelblaster-tune: WARPS = 1, 8
// kernelblaster-tune: WIDE = 0, 1
#ifndef WARPS
#define WARPS 8
#endif
#ifndef WIDE
#define WIDE 1
#endif

// One warp a row, three passes; four values a load where WIDE is set and rows are aligned.
__global__ void __launch_bounds__(32 * WARPS)
softmax(float* out, const float* x, int64_t rows, int64_t cols) {
    int64_t row = blockIdx.x * int64_t(WARPS) + threadIdx.x / 32;
    if (row >= rows) return;
    int lane = threadIdx.x % 32;
    x += row * cols;
    out += row * cols;
    int64_t quads = WIDE && cols % 4 == 0 ? cols / 4 : 0;
    const float4* x4 = reinterpret_cast<const float4*>(x);
    float4* out4 = reinterpret_cast<float4*>(out);
    float top = -INFINITY, sum = 0;
    for (int64_t c = lane; c < quads; c += 32) {
        float4 v = x4[c];
        top = fmaxf(top, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
    }
    for (int64_t c = 4 * quads + lane; c < cols; c += 32) top = fmaxf(top, x[c]);
    for (int o = 16; o > 0; o /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
    for (int64_t c = lane; c < quads; c += 32) {
        float4 v = x4[c];
        sum += (expf(v.x - top) + expf(v.y - top)) + (expf(v.z - top) + expf(v.w - top));
    }
    for (int64_t c = 4 * quads + lane; c < cols; c += 32) sum += expf(x[c] - top);
    for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
    float scale = 1 / sum;
    for (int64_t c = lane; c < quads; c += 32) {
        float4 v = x4[c];
        out4[c] = {expf(v.x - top) * scale, expf(v.y - top) * scale, expf(v.z - top) * scale,
                   expf(v.w - top) * scale};
    }
    for (int64_t c = 4 * quads + lane; c < cols; c += 32) out[c] = expf(x[c] - top) * scale;
}

extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          cudaStream_t stream) {
    softmax<<<unsigned((x_0 + WARPS - 1) / WARPS), 32 * WARPS, 0, stream>>>(out, x, x_0, x_1);
}
