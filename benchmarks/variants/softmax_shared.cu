// task: core/level1/softmax
// family: softmax
// kernelblaster-tune: BLOCK = 128, 512
#ifndef BLOCK
#define BLOCK 512
#endif

static const size_t MOST_SHARED = 200 << 10;

template <class Merge>
__device__ float over_block(float v, float neutral, Merge merge) {
    __shared__ float warps[32];
    for (int o = 16; o > 0; o /= 2) v = merge(v, __shfl_xor_sync(~0u, v, o));
    __syncthreads();
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x % 32 < BLOCK / 32 ? warps[threadIdx.x % 32] : neutral;
    for (int o = 16; o > 0; o /= 2) v = merge(v, __shfl_xor_sync(~0u, v, o));
    return v;
}

// The row is read once and kept in shared memory, which limits how many blocks are resident. Rows
// that do not fit go through the output instead.
__global__ void __launch_bounds__(BLOCK) softmax(float* out, const float* x, int64_t cols, bool fits) {
    extern __shared__ float staged[];
    x += blockIdx.x * cols;
    out += blockIdx.x * cols;
    float* row = fits ? staged : out;
    float top = -INFINITY, sum = 0;
    for (int64_t c = threadIdx.x; c < cols; c += BLOCK) {
        row[c] = x[c];
        top = fmaxf(top, row[c]);
    }
    top = over_block(top, -INFINITY, [](float a, float b) { return fmaxf(a, b); });
    for (int64_t c = threadIdx.x; c < cols; c += BLOCK) {
        row[c] = expf(row[c] - top);
        sum += row[c];
    }
    float scale = 1 / over_block(sum, 0, [](float a, float b) { return a + b; });
    for (int64_t c = threadIdx.x; c < cols; c += BLOCK) out[c] = row[c] * scale;
}

extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          cudaStream_t stream) {
    size_t bytes = x_1 * sizeof(float);
    bool fits = bytes <= MOST_SHARED;
    cudaFuncSetAttribute(softmax, cudaFuncAttributeMaxDynamicSharedMemorySize, int(MOST_SHARED));
    softmax<<<unsigned(x_0), BLOCK, fits ? bytes : 0, stream>>>(out, x, x_1, fits);
}
