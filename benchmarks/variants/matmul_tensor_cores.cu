// task: core/level1/matmul_square
// dtype: float16
// family: matmul tensor cores
// kernelblaster-tune: WARP_TILES = 1, 4
// kernelblaster-tune: STEP = 16, 64
#ifndef WARP_TILES
#define WARP_TILES 2
#endif
#ifndef STEP
#define STEP 16
#endif

#include <mma.h>
using namespace nvcuda;

static const int UNIT = 16, WARPS = 4, TILE = 2 * UNIT * WARP_TILES, PAD = 8;

// Four warps share a tile, WARP_TILES by WARP_TILES pieces of 16 by 16 each, summed in float.
__global__ void __launch_bounds__(32 * WARPS)
matmul(__half* out, const __half* a, const __half* b, int64_t m, int64_t k, int64_t n) {
    __shared__ __align__(32) __half left[TILE][STEP + PAD], right[STEP][TILE + PAD];
    __shared__ __align__(32) float result[WARPS][UNIT][UNIT];
    int64_t top = blockIdx.y * int64_t(TILE), first = blockIdx.x * int64_t(TILE);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int row = warp / 2 * UNIT * WARP_TILES, col = warp % 2 * UNIT * WARP_TILES;
    wmma::fragment<wmma::accumulator, UNIT, UNIT, UNIT, float> sum[WARP_TILES][WARP_TILES];
    for (int i = 0; i < WARP_TILES; ++i)
        for (int j = 0; j < WARP_TILES; ++j) wmma::fill_fragment(sum[i][j], 0.0f);
    for (int64_t start = 0; start < k; start += STEP) {
        for (int i = threadIdx.x; i < TILE * STEP; i += 32 * WARPS) {
            int64_t r = top + i / STEP, s = start + i % STEP;
            left[i / STEP][i % STEP] = r < m && s < k ? a[r * k + s] : __half(0.0f);
            s = start + i / TILE;
            int64_t c = first + i % TILE;
            right[i / TILE][i % TILE] = s < k && c < n ? b[s * n + c] : __half(0.0f);
        }
        __syncthreads();
#pragma unroll
        for (int s = 0; s < STEP; s += UNIT) {
            wmma::fragment<wmma::matrix_a, UNIT, UNIT, UNIT, __half, wmma::row_major> u[WARP_TILES];
            wmma::fragment<wmma::matrix_b, UNIT, UNIT, UNIT, __half, wmma::row_major> v[WARP_TILES];
            for (int i = 0; i < WARP_TILES; ++i) {
                wmma::load_matrix_sync(u[i], &left[row + i * UNIT][s], STEP + PAD);
                wmma::load_matrix_sync(v[i], &right[s][col + i * UNIT], TILE + PAD);
            }
            for (int i = 0; i < WARP_TILES; ++i)
                for (int j = 0; j < WARP_TILES; ++j) wmma::mma_sync(sum[i][j], u[i], v[j], sum[i][j]);
        }
        __syncthreads();
    }
    for (int i = 0; i < WARP_TILES; ++i)
        for (int j = 0; j < WARP_TILES; ++j) {
            wmma::store_matrix_sync(&result[warp][0][0], sum[i][j], UNIT, wmma::mem_row_major);
            __syncwarp();
            for (int e = lane; e < UNIT * UNIT; e += 32) {
                int64_t r = top + row + i * UNIT + e / UNIT, c = first + col + j * UNIT + e % UNIT;
                if (r < m && c < n) out[r * n + c] = __float2half(result[warp][e / UNIT][e % UNIT]);
            }
            __syncwarp();
        }
}

extern "C" void launch_gpu_implementation(__half* out, const __half* a, const __half* b, int64_t a_0,
                                          int64_t a_1, int64_t b_1, cudaStream_t stream) {
    dim3 grid(unsigned((b_1 + TILE - 1) / TILE), unsigned((a_0 + TILE - 1) / TILE));
    matmul<<<grid, 32 * WARPS, 0, stream>>>(out, a, b, a_0, a_1, b_1);
}
