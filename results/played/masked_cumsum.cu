// Masked running sum along each row: one block a row. A tile of 7168 elements is
// held in registers: each of 7 warps has a contiguous segment of 1024, as 8 chunks of
// 128 in which a lane has 4 consecutive elements. One barrier a tile; longer rows
// loop over tiles with a carry.

constexpr int THREADS = 224;
constexpr int WARPS = THREADS / 32;          // 7
constexpr int CHUNKS = 8;
constexpr int CHUNK = 32 * 4;                // elements of a warp in one chunk
constexpr int SEGMENT = CHUNKS * CHUNK;      // 1024 elements a warp
constexpr int TILE = WARPS * SEGMENT;        // 7168 elements a block

// VEC: cols is a multiple of 4, so that every row starts at a 16-byte boundary.
template <bool VEC>
__global__ void __launch_bounds__(THREADS, 5)   // at most 56 registers
masked_cumsum_kernel(float* __restrict__ out,
                     const float* __restrict__ x,
                     const bool* __restrict__ mask,
                     int64_t rows, int64_t cols)
{
    __shared__ float warp_total[2][16];      // double buffered: one barrier a tile

    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const int first = warp * SEGMENT + lane * 4;
    int buf = 0;

    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        float carry = 0.0f;

        for (int64_t start = 0; start < cols; start += TILE) {
            const int64_t origin = row * cols + start;
            const int64_t rest = cols - start;
            const int left = rest < TILE ? (int)rest : TILE;   // elements in this tile
            const float* xt = x + origin;
            const bool* mt = mask + origin;
            float* ot = out + origin;

            float v[CHUNKS][4];
            if (VEC) {
                float4 xv[CHUNKS];
                unsigned int mv[CHUNKS];
                #pragma unroll
                for (int i = 0; i < CHUNKS; ++i) {
                    const int c = first + i * CHUNK;
                    xv[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                    mv[i] = 0u;
                    if (c < left) {
                        xv[i] = *reinterpret_cast<const float4*>(xt + c);
                        mv[i] = *reinterpret_cast<const unsigned int*>(mt + c);
                    }
                }
                #pragma unroll
                for (int i = 0; i < CHUNKS; ++i) {
                    v[i][0] = xv[i].x * ((mv[i] & 0x000000ffu) ? 1.0f : 0.0f);
                    v[i][1] = xv[i].y * ((mv[i] & 0x0000ff00u) ? 1.0f : 0.0f);
                    v[i][2] = xv[i].z * ((mv[i] & 0x00ff0000u) ? 1.0f : 0.0f);
                    v[i][3] = xv[i].w * ((mv[i] & 0xff000000u) ? 1.0f : 0.0f);
                }
            } else {
                #pragma unroll
                for (int i = 0; i < CHUNKS; ++i) {
                    #pragma unroll
                    for (int j = 0; j < 4; ++j) {
                        const int c = first + i * CHUNK + j;
                        v[i][j] = 0.0f;
                        if (c < left) v[i][j] = xt[c] * (mt[c] ? 1.0f : 0.0f);
                    }
                }
            }

            // serial scan of the lane's 4 elements, then scans of the lanes' totals:
            // CHUNKS independent ones, interleaved
            float s[CHUNKS];
            #pragma unroll
            for (int i = 0; i < CHUNKS; ++i) {
                v[i][1] += v[i][0];
                v[i][2] += v[i][1];
                v[i][3] += v[i][2];
                s[i] = v[i][3];
            }
            #pragma unroll
            for (int d = 1; d < 32; d <<= 1) {
                #pragma unroll
                for (int i = 0; i < CHUNKS; ++i) {
                    const float n = __shfl_up_sync(0xffffffffu, s[i], d);
                    if (lane >= d) s[i] += n;
                }
            }

            // what stands before the lane's elements within the warp's segment
            float segment = 0.0f;
            #pragma unroll
            for (int i = 0; i < CHUNKS; ++i) {
                const float chunk_total = __shfl_sync(0xffffffffu, s[i], 31);
                float e = __shfl_up_sync(0xffffffffu, s[i], 1);
                if (lane == 0) e = 0.0f;
                s[i] = segment + e;
                segment += chunk_total;
            }

            if (lane == 0) warp_total[buf][warp] = segment;
            __syncthreads();

            float before = 0.0f, total = 0.0f;
            #pragma unroll
            for (int w = 0; w < WARPS; ++w) {
                if (w == warp) before = total;
                total += warp_total[buf][w];
            }
            before += carry;

            #pragma unroll
            for (int i = 0; i < CHUNKS; ++i) {
                const int c = first + i * CHUNK;
                const float o = before + s[i];
                if (VEC) {
                    if (c < left)
                        *reinterpret_cast<float4*>(ot + c) =
                            make_float4(o + v[i][0], o + v[i][1], o + v[i][2], o + v[i][3]);
                } else {
                    #pragma unroll
                    for (int j = 0; j < 4; ++j)
                        if (c + j < left) ot[c + j] = o + v[i][j];
                }
            }
            carry += total;
            buf ^= 1;
        }
    }
}

extern "C" void launch_gpu_implementation(
    float* out,
    const float* x, const bool* mask,
    int64_t x_0, int64_t x_1,
    cudaStream_t stream)
{
    if (x_0 <= 0 || x_1 <= 0) return;
    const int64_t max_grid = 1 << 20;
    const unsigned grid = (unsigned)(x_0 < max_grid ? x_0 : max_grid);
    if (x_1 % 4 == 0)
        masked_cumsum_kernel<true><<<grid, THREADS, 0, stream>>>(out, x, mask, x_0, x_1);
    else
        masked_cumsum_kernel<false><<<grid, THREADS, 0, stream>>>(out, x, mask, x_0, x_1);
}
