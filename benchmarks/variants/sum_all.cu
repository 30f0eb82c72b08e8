// task: core/level1/sum_all
// family: full reduction
// kernelblaster-tune: BLOCKS = 33, 264, 4224
// kernelblaster-tune: WIDE = 0, 1
#ifndef BLOCKS
#define BLOCKS 264
#endif
#ifndef WIDE
#define WIDE 1
#endif

static const int THREADS = 256, RUN = 32;

__device__ double block_sum(double v) {
    __shared__ double warps[32];
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x % 32 < blockDim.x / 32 ? warps[threadIdx.x % 32] : 0;
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    return v;
}

// Few blocks leave most of the GPU idle, many make the second kernel longer. Sums are short in float,
// then double.
__global__ void partial_sums(double* sums, const float* x, int64_t n) {
    int64_t thread = blockIdx.x * int64_t(THREADS) + threadIdx.x, step = gridDim.x * int64_t(THREADS);
    int64_t quads = WIDE ? n / 4 : 0;
    double total = 0;
    float sum = 0;
    int run = 0;
    for (int64_t i = thread; i < quads; i += step) {
        float4 v = reinterpret_cast<const float4*>(x)[i];
        sum += (v.x + v.y) + (v.z + v.w);
        if (++run == RUN) {
            total += sum;
            sum = 0;
            run = 0;
        }
    }
    for (int64_t i = 4 * quads + thread; i < n; i += step) {
        sum += x[i];
        if (++run == RUN) {
            total += sum;
            sum = 0;
            run = 0;
        }
    }
    total = block_sum(total + sum);
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

__global__ void finish(float* out, const double* sums) {
    double total = 0;
    for (int i = threadIdx.x; i < BLOCKS; i += THREADS) total += sums[i];
    total = block_sum(total);
    if (threadIdx.x == 0) *out = float(total);
}

extern "C" void launch_gpu_implementation(float* out, const float* x, int64_t x_0, int64_t x_1,
                                          cudaStream_t stream) {
    double* sums = nullptr;
    cudaMallocAsync(reinterpret_cast<void**>(&sums), BLOCKS * sizeof(double), stream);
    partial_sums<<<BLOCKS, THREADS, 0, stream>>>(sums, x, x_0 * x_1);
    finish<<<1, THREADS, 0, stream>>>(out, sums);
    cudaFreeAsync(sums, stream);
}
