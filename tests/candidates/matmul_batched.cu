// task: core/level1/matmul_batched
// family: batched matmul
// plant: the left factor is rounded to bfloat16 on its way into shared memory

static const int TILE = 64, STEP = 16, PATCH = 4;

__global__ void __launch_bounds__(256)
batched(float* out, const float* a, const float* b, int64_t m, int64_t k, int64_t n, int64_t batches) {
    __shared__ float left[STEP][TILE + 1], right[STEP][TILE];
    int thread = threadIdx.y * 16 + threadIdx.x;
    int64_t top = blockIdx.y * int64_t(TILE), first = blockIdx.x * int64_t(TILE);
    for (int64_t batch = blockIdx.z; batch < batches; batch += gridDim.z) {
        const float *from_a = a + batch * m * k, *from_b = b + batch * k * n;
        float sum[PATCH][PATCH] = {};
        for (int64_t start = 0; start < k; start += STEP) {
#pragma unroll
            for (int i = thread; i < STEP * TILE; i += 256) {
                int64_t r = top + i / STEP, inner = start + i % STEP;
                float v = r < m && inner < k ? from_a[r * k + inner] : 0;
#ifdef PLANTED_ERROR
                v = __bfloat162float(__float2bfloat16(v));
#endif
                left[i % STEP][i / STEP] = v;
                int64_t c = first + i % TILE;
                inner = start + i / TILE;
                right[i / TILE][i % TILE] = c < n && inner < k ? from_b[inner * n + c] : 0;
            }
            __syncthreads();
#pragma unroll
            for (int s = 0; s < STEP; ++s)
#pragma unroll
                for (int i = 0; i < PATCH; ++i)
#pragma unroll
                    for (int j = 0; j < PATCH; ++j)
                        sum[i][j] += left[s][threadIdx.y + 16 * i] * right[s][threadIdx.x + 16 * j];
            __syncthreads();
        }
        for (int i = 0; i < PATCH; ++i)
            for (int j = 0; j < PATCH; ++j) {
                int64_t r = top + threadIdx.y + 16 * i, c = first + threadIdx.x + 16 * j;
                if (r < m && c < n) out[(batch * m + r) * n + c] = sum[i][j];
            }
    }
}

extern "C" void launch_gpu_implementation(float* out, const float* a, const float* b, int64_t a_0,
                                          int64_t a_1, int64_t a_2, int64_t b_2, cudaStream_t stream) {
    dim3 grid(unsigned((b_2 + TILE - 1) / TILE), unsigned((a_1 + TILE - 1) / TILE),
              unsigned(a_0 < 65535 ? a_0 : 65535));
    batched<<<grid, dim3(16, 16), 0, stream>>>(out, a, b, a_1, a_2, b_2, a_0);
}
