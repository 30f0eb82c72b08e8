// task: core/level1/mse_loss
// family: full reduction
// plant: the last step adds up at most 1024 partial sums, where there are more in large runs

static const int THREADS = 256;

__device__ double block_sum(double v) {
    __shared__ double warps[32];
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x < blockDim.x / 32 ? warps[threadIdx.x] : 0;
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(~0u, v, o);
    return v;  // right in the first warp
}

__global__ void partial_sums(double* sums, const float* a, const float* b, int64_t n) {
    int64_t thread = blockIdx.x * int64_t(THREADS) + threadIdx.x, step = gridDim.x * int64_t(THREADS);
    float sum[4] = {};
    double total = 0;
    int since = 0;
    for (int64_t i = thread; i < n / 4; i += step) {
        float4 u = reinterpret_cast<const float4*>(a)[i], v = reinterpret_cast<const float4*>(b)[i];
        sum[0] += (u.x - v.x) * (u.x - v.x);
        sum[1] += (u.y - v.y) * (u.y - v.y);
        sum[2] += (u.z - v.z) * (u.z - v.z);
        sum[3] += (u.w - v.w) * (u.w - v.w);
        if (++since == 64) {  // short float sums, then double
            total += (sum[0] + sum[1]) + (sum[2] + sum[3]);
            sum[0] = sum[1] = sum[2] = sum[3] = 0;
            since = 0;
        }
    }
    int64_t tail = n / 4 * 4 + thread;
    if (tail < n) sum[0] += (a[tail] - b[tail]) * (a[tail] - b[tail]);
    total = block_sum(total + ((sum[0] + sum[1]) + (sum[2] + sum[3])));
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

__global__ void finish(float* out, const double* sums, int count, int64_t n) {
    double total = 0;
#ifdef PLANTED_ERROR
    if (threadIdx.x < count) total = sums[threadIdx.x];
#else
    for (int i = threadIdx.x; i < count; i += 1024) total += sums[i];
#endif
    total = block_sum(total);
    if (threadIdx.x == 0) *out = float(total / double(n));
}

extern "C" void launch_gpu_implementation(float* out, const float* predictions, const float* targets,
                                          int64_t predictions_0, int64_t predictions_1,
                                          cudaStream_t stream) {
    int64_t n = predictions_0 * predictions_1, needed = (n / 4 + THREADS - 1) / THREADS + 1;
    int blocks = int(needed < 2112 ? needed : 2112);
    double* sums = nullptr;
    cudaMallocAsync(reinterpret_cast<void**>(&sums), blocks * sizeof(double), stream);
    partial_sums<<<blocks, THREADS, 0, stream>>>(sums, predictions, targets, n);
    finish<<<1, 1024, 0, stream>>>(out, sums, blocks, n);
    cudaFreeAsync(sums, stream);
}
