// task: core/level1/matmul_b_transposed
// family: transposed matmul
// plant: the tail of the inner dimension is not masked: the next row's first values are multiplied in

static const int TILE = 128, STEP = 8;

// As candidates/matmul.cu, but both factors have the inner dimension last.
__global__ void __launch_bounds__(256, 2)
matmul(float* out, const float* a, const float* b, int64_t m, int64_t k, int64_t n) {
    __shared__ __align__(16) float left[2][STEP][TILE + 4];
    __shared__ __align__(16) float right[2][STEP][TILE + 4];
    int64_t top = blockIdx.y * int64_t(TILE), first = blockIdx.x * int64_t(TILE);
    int thread = threadIdx.x, row = thread / 16 * 4, col = thread % 16 * 4;
    int line = thread / 2, inner = thread % 2 * 4;

    auto fetch = [&](const float* from, int64_t r, int64_t rows, int64_t start) {
        int64_t i = start + inner;
        const float* p = from + r * k + i;
        if (r >= rows || i >= k) return make_float4(0, 0, 0, 0);
        if (k % 4 == 0) return *reinterpret_cast<const float4*>(p);
#ifdef PLANTED_ERROR
        if (r + 1 < rows) return make_float4(p[0], p[1], p[2], p[3]);
#endif
        return make_float4(p[0], i + 1 < k ? p[1] : 0, i + 2 < k ? p[2] : 0, i + 3 < k ? p[3] : 0);
    };
    auto keep = [&](float(*tile)[TILE + 4], float4 v) {
        tile[inner][line] = v.x;
        tile[inner + 1][line] = v.y;
        tile[inner + 2][line] = v.z;
        tile[inner + 3][line] = v.w;
    };

    float sum[8][8] = {};
    keep(left[0], fetch(a, top + line, m, 0));
    keep(right[0], fetch(b, first + line, n, 0));
    __syncthreads();
    int stage = 0;
    for (int64_t start = 0; start < k; start += STEP, stage ^= 1) {
        float4 next_a = fetch(a, top + line, m, start + STEP);
        float4 next_b = fetch(b, first + line, n, start + STEP);
#pragma unroll
        for (int s = 0; s < STEP; ++s) {
            float u[8], v[8];
            *reinterpret_cast<float4*>(u) = *reinterpret_cast<float4*>(&left[stage][s][row]);
            *reinterpret_cast<float4*>(u + 4) = *reinterpret_cast<float4*>(&left[stage][s][row + 64]);
            *reinterpret_cast<float4*>(v) = *reinterpret_cast<float4*>(&right[stage][s][col]);
            *reinterpret_cast<float4*>(v + 4) = *reinterpret_cast<float4*>(&right[stage][s][col + 64]);
#pragma unroll
            for (int i = 0; i < 8; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j) sum[i][j] = fmaf(u[i], v[j], sum[i][j]);
        }
        keep(left[stage ^ 1], next_a);
        keep(right[stage ^ 1], next_b);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        int64_t r = top + row + (i < 4 ? i : i + 60);
        if (r >= m) continue;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            int64_t c = first + col + (j < 4 ? j : j + 60);
            if (c < n) out[r * n + c] = sum[i][j];
        }
    }
}

extern "C" void launch_gpu_implementation(float* out, const float* a, const float* b, int64_t a_0,
                                          int64_t a_1, int64_t b_0, cudaStream_t stream) {
    dim3 grid(unsigned((b_0 + TILE - 1) / TILE), unsigned((a_0 + TILE - 1) / TILE));
    matmul<<<grid, 256, 0, stream>>>(out, a, b, a_0, a_1, b_0);
}
