// task: core/level1/matmul_vector
// family: matrix-vector
// kernelblaster-tune: BLOCK = 32, 512
// kernelblaster-tune: WIDE = 0, 1
#ifndef BLOCK
#define BLOCK 128
#endif
#ifndef WIDE
#define WIDE 1
#endif

// One block a row.
__global__ void __launch_bounds__(BLOCK)
matrix_vector(float* out, const float* a, const float* x, int64_t cols) {
    __shared__ float warps[32];
    a += blockIdx.x * cols;
    int64_t quads = WIDE && cols % 4 == 0 ? cols / 4 : 0;
    float sum = 0;
    for (int64_t c = threadIdx.x; c < quads; c += BLOCK) {
        float4 u = reinterpret_cast<const float4*>(a)[c], v = reinterpret_cast<const float4*>(x)[c];
        sum += (u.x * v.x + u.y * v.y) + (u.z * v.z + u.w * v.w);
    }
    for (int64_t c = 4 * quads + threadIdx.x; c < cols; c += BLOCK) sum += a[c] * x[c];
    for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(~0u, sum, o);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int w = 1; w < BLOCK / 32; ++w) sum += warps[w];
    out[blockIdx.x] = sum;
}

extern "C" void launch_gpu_implementation(float* out, const float* a, const float* x, int64_t a_0,
                                          int64_t a_1, cudaStream_t stream) {
    matrix_vector<<<unsigned(a_0), BLOCK, 0, stream>>>(out, a, x, a_1);
}
