// task: core/level1/matmul_square
// family: matmul
// plant: the last partial step of the inner dimension is dropped

static const int TILE = 128, STEP = 8;

// 128 by 128 outputs a block of 256 threads, 8 by 8 a thread. The next step's values wait in
// registers while this one's are multiplied, so one barrier a step is enough.
__global__ void __launch_bounds__(256, 2)
matmul(float* out, const float* a, const float* b, int64_t m, int64_t k, int64_t n) {
    __shared__ __align__(16) float left[2][STEP][TILE + 4];
    __shared__ __align__(16) float right[2][STEP][TILE];
    int64_t top = blockIdx.y * int64_t(TILE), first = blockIdx.x * int64_t(TILE);
    int thread = threadIdx.x, row = thread / 16 * 4, col = thread % 16 * 4;
    int a_row = thread / 2, a_inner = thread % 2 * 4, b_inner = thread / 32, b_col = thread % 32 * 4;
    bool a_wide = k % 4 == 0, b_wide = n % 4 == 0;

    auto fetch_a = [&](int64_t start) {
        int64_t r = top + a_row, i = start + a_inner;
        const float* p = a + r * k + i;
        if (r >= m) return make_float4(0, 0, 0, 0);
        if (a_wide && i + 4 <= k) return *reinterpret_cast<const float4*>(p);
        return make_float4(i < k ? p[0] : 0, i + 1 < k ? p[1] : 0, i + 2 < k ? p[2] : 0,
                           i + 3 < k ? p[3] : 0);
    };
    auto fetch_b = [&](int64_t start) {
        int64_t i = start + b_inner, c = first + b_col;
        const float* p = b + i * n + c;
        if (i >= k) return make_float4(0, 0, 0, 0);
        if (b_wide && c + 4 <= n) return *reinterpret_cast<const float4*>(p);
        return make_float4(c < n ? p[0] : 0, c + 1 < n ? p[1] : 0, c + 2 < n ? p[2] : 0,
                           c + 3 < n ? p[3] : 0);
    };
    auto keep = [&](int stage, float4 u, float4 v) {
        left[stage][a_inner][a_row] = u.x;
        left[stage][a_inner + 1][a_row] = u.y;
        left[stage][a_inner + 2][a_row] = u.z;
        left[stage][a_inner + 3][a_row] = u.w;
        *reinterpret_cast<float4*>(&right[stage][b_inner][b_col]) = v;
    };

    float sum[8][8] = {};
    int64_t end = k;
#ifdef PLANTED_ERROR
    if (k > STEP) end = k / STEP * STEP;
#endif
    keep(0, fetch_a(0), fetch_b(0));
    __syncthreads();
    int stage = 0;
    for (int64_t start = 0; start < end; start += STEP, stage ^= 1) {
        float4 next_a = fetch_a(start + STEP), next_b = fetch_b(start + STEP);
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
        keep(stage ^ 1, next_a, next_b);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        int64_t r = top + row + (i < 4 ? i : i + 60);
        if (r >= m) continue;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            int64_t c = first + col + 64 * half;
            float* p = out + r * n + c;
            const float* s = &sum[i][4 * half];
            if (b_wide && c + 4 <= n) {
                *reinterpret_cast<float4*>(p) = make_float4(s[0], s[1], s[2], s[3]);
            } else {
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    if (c + j < n) p[j] = s[j];
            }
        }
    }
}

extern "C" void launch_gpu_implementation(float* out, const float* a, const float* b, int64_t a_0,
                                          int64_t a_1, int64_t b_1, cudaStream_t stream) {
    dim3 grid(unsigned((b_1 + TILE - 1) / TILE), unsigned((a_0 + TILE - 1) / TILE));
    matmul<<<grid, 256, 0, stream>>>(out, a, b, a_0, a_1, b_1);
}
