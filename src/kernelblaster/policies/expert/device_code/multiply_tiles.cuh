#include "tensor_cores.cuh"
#include "scales.cuh"

// The product of two packed operands for one block; a warp has 64 x 32 results of it. With two terms,
// low * high, high * low and high * high are added; low * low is below the last bit. Tensor cores cut off
// what does not fit when they add: after every tile their sums are therefore taken over into ordinary
// ones, which round to nearest. Slabs are `stride` tiles apart.
template <int BLOCK_M, int BLOCK_N, int STAGES, int TERMS, typename T>
__device__ void multiply_tiles(
    float (&sums)[4][4][4], const T* left, const T* right, Scales scales, int stride,
    int tiles) {
  extern __shared__ __align__(128) unsigned char memory[];
  constexpr int THREADS = BLOCK_M * BLOCK_N / 64;
  constexpr int TERM = 64 * 32 * 2;  // bytes of one term of 64 rows
  constexpr int SLABS = (BLOCK_M + BLOCK_N) / 64, STAGE = SLABS * TERMS * TERM;
  const uint32_t base = (uint32_t)__cvta_generic_to_shared(memory);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int slab_m = warp / (BLOCK_N / 32), first_n = warp % (BLOCK_N / 32) * 32;

  auto fetch = [&](int tile) {
    const uint32_t to = base + tile % STAGES * STAGE;
    #pragma unroll
    for (int place = threadIdx.x * 16; place < STAGE; place += THREADS * 16) {
      const int slab = place / (TERMS * TERM), rest = place % (TERMS * TERM);
      const T* from = slab < BLOCK_M / 64 ? left : right;
      const int64_t row = slab < BLOCK_M / 64 ? slab : slab - BLOCK_M / 64;
      copy_ahead(to + place, (const char*)from + (row * stride + tile) * (TERMS * TERM) + rest);
    }
  };
  #pragma unroll
  for (int tile = 0; tile < STAGES - 1; ++tile) {
    if (tile < tiles) fetch(tile);
    asm volatile("cp.async.commit_group;");
  }
  const int row_m = lane % 16, group_m = lane / 16;
  const int row_n = first_n % 64 + lane % 8 + lane / 16 * 8, group_n = lane / 8 % 2;
  const int slab_n = BLOCK_M / 64 + first_n / 64;
  for (int tile = 0; tile < tiles; ++tile) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
    __syncthreads();
    if (tile + STAGES - 1 < tiles) fetch(tile + STAGES - 1);
    asm volatile("cp.async.commit_group;");
    const uint32_t stage = base + tile % STAGES * STAGE;
    float part[4][4][4] = {};
    #pragma unroll
    for (int k = 0; k < 2; ++k) {
      auto place = [&](int slab, int row, int group, int term) {
        return stage + (slab * TERMS + term) * TERM + row * 64 + ((k * 2 + group) ^ (row / 2 % 4)) * 16;
      };
      uint32_t a[4][4], b[2][4];
      auto add_products = [&] {
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
          multiply_add<T>(part[i / 4][i % 4], a[i / 4], b[i % 4 / 2][i % 2 * 2], b[i % 4 / 2][i % 2 * 2 + 1]);
        }
      };
      auto load_left = [&](int term) {
        #pragma unroll
        for (int i = 0; i < 4; ++i) load_matrices(a[i], place(slab_m, row_m + i * 16, group_m, term));
      };
      auto load_right = [&](int term) {
        #pragma unroll
        for (int j = 0; j < 2; ++j) load_matrices(b[j], place(slab_n, row_n + j * 16, group_n, term));
      };
      load_right(0);
      if (TERMS == 2) {
        load_left(1);
        add_products();
      }
      load_left(0);
      if (TERMS == 2) {
        load_right(1);
        add_products();
        load_right(0);
      }
      add_products();
    }
    float row[8], column[8];
    scales.load<TERMS>(row, column, tile / TOGETHER, slab_m * 64 + lane / 4, first_n + lane % 4 * 2);
    #pragma unroll
    for (int i = 0; i < 64; ++i) {
      const int m = i / 8, n = i % 8, e = m % 2 * 2 + n % 2;
      sums[m / 2][n / 2][e] += part[m / 2][n / 2][e] * (row[m] * column[n]);
    }
  }
}
