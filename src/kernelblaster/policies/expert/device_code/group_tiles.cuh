#include "pipeline.cuh"
#include "scales.cuh"

// Brings the tiles of one block of results to shared memory. Slabs are `stride` tiles apart; `step` counts
// tiles over all blocks.
template <int BLOCK_M, int BLOCK_N, int STAGES, int TERMS, typename T>
__device__ void produce_tiles(
    Pipeline<STAGES>& pipeline, uint32_t base, const T* left, const T* right, int stride, int tiles,
    uint32_t& step) {
  constexpr int TERM = 64 * 32 * 2, STAGE = (BLOCK_M + BLOCK_N) / 64 * TERMS * TERM;
  for (int tile = 0; tile < tiles; ++tile, ++step) {
    const int stage = step % STAGES;
    if (step >= STAGES) wait(&pipeline.free[stage], (step / STAGES - 1) & 1);
    uint64_t* full = &pipeline.full[stage];
    expect(full, STAGE);
    uint32_t to = base + stage * STAGE;
    auto bring = [&](const T* operand, int slab, int term, int terms) {
      const char* from = (const char*)operand + ((int64_t)slab * stride + tile) * (TERMS * TERM) + term * TERM;
      copy_bulk(to, from, terms * TERM, full);
      to += terms * TERM;
    };
    #pragma unroll
    for (int slab = 0; slab < BLOCK_M / 64; ++slab) bring(left, slab, 0, TERMS);
    #pragma unroll
    for (int term = 0; term < TERMS; ++term)
      #pragma unroll
      for (int slab = 0; slab < BLOCK_N / 64; ++slab) bring(right, slab, term, 1);
  }
}

// How a matrix instruction finds an operand: rows of 64 bytes, permuted in groups of 8.
__device__ uint64_t describe(uint32_t place) {
  return (uint64_t)((place & 0x3FFFF) >> 4) | (uint64_t)1 << 16 | (uint64_t)(512 >> 4) << 32 | (uint64_t)2 << 62;
}

// Multiplies the tiles of one block of results; four warps together have 64 rows of them. Tensor cores cut
// off what does not fit when they add: the small products are therefore added first, and after every two
// tiles the sums are taken over into ordinary ones, which round to nearest.
template <int BLOCK_M, int BLOCK_N, int STAGES, int TERMS>
__device__ void consume_tiles(
    float (&sums)[BLOCK_N / 2], Pipeline<STAGES>& pipeline, uint32_t base, Scales scales, int, int tiles,
    uint32_t& step) {
  constexpr int TERM = 64 * 32 * 2, STAGE = (BLOCK_M + BLOCK_N) / 64 * TERMS * TERM;
  const int lane = threadIdx.x % 32, first_row = threadIdx.x / 32 * 16 + lane / 4, first_column = lane % 4 * 2;
  for (int start = 0; start < tiles; start += 2) {
    const int count = min(2, tiles - start);
    float part[BLOCK_N / 2];
    uint32_t left[2], right[2];
    #pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      const uint32_t at = step + min(tile, count - 1);
      wait(&pipeline.full[at % STAGES], (at / STAGES) & 1);
      left[tile] = base + at % STAGES * STAGE + threadIdx.x / 128 * TERMS * TERM;
      right[tile] = base + at % STAGES * STAGE + BLOCK_M / 64 * TERMS * TERM;
    }
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    #pragma unroll
    for (int k = 0; k < 4 && TERMS == 2; ++k) {
      if (k / 2 == count) break;
      const uint32_t a = left[k / 2] + k % 2 * 32, b = right[k / 2] + k % 2 * 32;
      multiply_group(part, describe(a), describe(b + BLOCK_N / 64 * TERM), k);
      multiply_group(part, describe(a + TERM), describe(b), 1);
    }
    #pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (k / 2 == count) break;
      const uint32_t a = left[k / 2] + k % 2 * 32, b = right[k / 2] + k % 2 * 32;
      multiply_group(part, describe(a), describe(b), TERMS == 2 ? 1 : k);
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    float row[2], column[BLOCK_N / 4];
    scales.load<TERMS>(row, column, start / TOGETHER, first_row, first_column);
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int tile = 0; tile < count; ++tile, ++step) {
      if (threadIdx.x % 128 == 0) arrive(&pipeline.free[step % STAGES]);
    }
    #pragma unroll
    for (int i = 0; i < BLOCK_N / 2; ++i) sums[i] += part[i] * (row[i / 2 % 2] * column[i / 4 * 2 + i % 2]);
  }
}
