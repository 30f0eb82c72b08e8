// task: core/level1/rms_norm
// family: normalization
// kernelblaster-tune: BLOCK = 32, 512
// kernelblaster-tune: WIDE = 0, 1
#ifndef BLOCK
#define BLOCK 256
#endif
#ifndef WIDE
#define WIDE 1
#endif

__device__ float block_sum(float v) {
    __shared__ float warps[32];
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x % 32 < BLOCK / 32 ? warps[threadIdx.x % 32] : 0;
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    return v;
}

// One block a row, read twice.
__global__ void __launch_bounds__(BLOCK)
rms_norm(float* out, const float* x, const float* weight, int64_t cols) {
    x += blockIdx.x * cols;
    out += blockIdx.x * cols;
    int64_t quads = WIDE && cols % 4 == 0 ? cols / 4 : 0;
    float sum = 0;
    for (int64_t c = threadIdx.x; c < quads; c += BLOCK) {
        float4 v = reinterpret_cast<const float4*>(x)[c];
        sum += (v.x * v.x + v.y * v.y) + (v.z * v.z + v.w * v.w);
    }
    for (int64_t c = 4 * quads + threadIdx.x; c < cols; c += BLOCK) sum += x[c] * x[c];
    float scale = 1 / sqrtf(block_sum(sum) / float(cols) + 1e-6f);
    for (int64_t c = threadIdx.x; c < quads; c += BLOCK) {
        float4 v = reinterpret_cast<const float4*>(x)[c];
        float4 w = reinterpret_cast<const float4*>(weight)[c];
        reinterpret_cast<float4*>(out)[c] = {v.x * scale * w.x, v.y * scale * w.y, v.z * scale * w.z,
                                             v.w * scale * w.w};
    }
    for (int64_t c = 4 * quads + threadIdx.x; c < cols; c += BLOCK) out[c] = x[c] * scale * weight[c];
}

extern "C" void launch_gpu_implementation(float* out, const float* x, const float* weight, int64_t x_0,
                                          int64_t x_1, int64_t x_2, cudaStream_t stream) {
    rms_norm<<<unsigned(x_0 * x_1), BLOCK, 0, stream>>>(out, x, weight, x_2);
}
