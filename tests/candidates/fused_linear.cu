// task: core/level2/linear_gelu_scale
// family: fused linear
// plant: the scale is applied before GELU instead of after it

static const int TILE = 128, STEP = 8;

__device__ float finish(float sum, float bias, float scale) {
    float v = sum + bias;
#ifdef PLANTED_ERROR
    v *= scale;
    return v * normcdff(v);
#else
    return v * normcdff(v) * scale;
#endif
}

// x @ weight.T with bias, GELU and scale applied while the sums are still in registers.
__global__ void __launch_bounds__(256, 2)
linear(float* out, const float* x, const float* weight, const float* bias, const float* scale,
       int64_t m, int64_t k, int64_t n) {
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
        return make_float4(p[0], i + 1 < k ? p[1] : 0, i + 2 < k ? p[2] : 0, i + 3 < k ? p[3] : 0);
    };
    auto keep = [&](float(*tile)[TILE + 4], float4 v) {
        tile[inner][line] = v.x;
        tile[inner + 1][line] = v.y;
        tile[inner + 2][line] = v.z;
        tile[inner + 3][line] = v.w;
    };

    float sum[8][8] = {};
    keep(left[0], fetch(x, top + line, m, 0));
    keep(right[0], fetch(weight, first + line, n, 0));
    __syncthreads();
    int stage = 0;
    for (int64_t start = 0; start < k; start += STEP, stage ^= 1) {
        float4 next_a = fetch(x, top + line, m, start + STEP);
        float4 next_b = fetch(weight, first + line, n, start + STEP);
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
    for (int j = 0; j < 8; ++j) {
        int64_t c = first + col + (j < 4 ? j : j + 60);
        if (c >= n) continue;
        float plus = bias[c], by = scale[c];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            int64_t r = top + row + (i < 4 ? i : i + 60);
            if (r < m) out[r * n + c] = finish(sum[i][j], plus, by);
        }
    }
}

extern "C" void launch_gpu_implementation(float* out, const float* x, const float* scale,
                                          const float* linear_weight, const float* linear_bias,
                                          int64_t x_0, int64_t x_1, int64_t scale_0,
                                          cudaStream_t stream) {
    dim3 grid(unsigned((scale_0 + TILE - 1) / TILE), unsigned((x_0 + TILE - 1) / TILE));
    linear<<<grid, 256, 0, stream>>>(out, x, linear_weight, linear_bias, scale, x_0, x_1, scale_0);
}
