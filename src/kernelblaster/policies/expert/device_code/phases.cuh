#include "split_terms.cuh"
#include "tensor_cores.cuh"

// The largest of a thread's numbers that is finite.
template <int K>
__device__ __forceinline__ float largest_finite(const float (&values)[K]) {
  unsigned largest = 0;
  #pragma unroll
  for (int k = 0; k < K; ++k) largest = max(largest, __float_as_uint(values[k]) & 0x7fffffffu);
  if (largest >= 0x7f800000u) {
    largest = 0;
    #pragma unroll
    for (int k = 0; k < K; ++k) {
      if (isfinite(values[k])) largest = max(largest, __float_as_uint(values[k]) & 0x7fffffffu);
    }
  }
  return __uint_as_float(largest);
}

// Makes `step` larger, the power of two by which the threads of a group divide their numbers, where the largest
// number of one of them outgrows it. True, for all threads of the block, where one of its GROUPS groups did;
// `factors` then has for each column the former step over the new one.
template <int GROUPS>
__device__ __forceinline__ bool outgrown(
    float largest, float& step, int group, int column, unsigned* found, float* factors) {
  if (!__syncthreads_or(largest > step * 32768.0f)) return false;
  for (int at = threadIdx.x; at < GROUPS; at += blockDim.x) found[at] = 0;
  __syncthreads();
  atomicMax(&found[group], __float_as_uint(largest));
  __syncthreads();
  const float most = __uint_as_float(found[group]);
  const float larger = most > step * 32768.0f ? scale_for(most) * 4.0f : step;  // seldom outgrown again
  factors[column] = step / larger;
  step = larger;
  __syncthreads();
  return true;
}

// Rounds a thread's numbers of one column to halves, divided by the power of two `step`, and puts them into
// a tile as pairs of neighbours along K, from `pair` on.
template <int K, int PAIRS, int COLUMNS>
__device__ __forceinline__ void put_column(
    uint32_t (&tile)[PAIRS][COLUMNS], int pair, int column, const float (&values)[K], float step) {
  const float inverse = __uint_as_float(0x7f000000u - __float_as_uint(step));
  #pragma unroll
  for (int k = 0; k < K; k += 2) {
    const __half2 both = __floats2half2_rn(values[k] * inverse, values[k + 1] * inverse);
    tile[pair + k / 2][column] = *reinterpret_cast<const uint32_t*>(&both);
  }
}

// Multiplies the sums of a warp's columns, from `column` on, by the factors of these.
template <int PHASES, int M, int N>
__device__ __forceinline__ void rescale_phases(
    float (&sums)[PHASES][M][N][4], const float* factors, int column) {
  #pragma unroll
  for (int j = 0; j < N; ++j) {
    #pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float factor = factors[column + j * 8 + threadIdx.x % 4 * 2 + e];
      #pragma unroll
      for (int at = 0; at < PHASES * M; ++at) {
        sums[at / M][at % M][j][e] *= factor;
        sums[at / M][at % M][j][2 + e] *= factor;
      }
    }
  }
}

// Adds the products of a tile to a warp's sums, of M x N fragments of 16 x 8 for each phase. The filters lie as
// fragments, [tap][phase][k / 16][row / 16][lane], the operand as [k / 2][column] in pairs along K; `column` is
// the warp's first one under tap 0, and each further tap reads STEP columns before. A phase has a tap where
// its bit in `active` is set.
template <int STEP, int PHASES, int M, int N, int TAPS, int FRAGMENTS, int PAIRS, int COLUMNS>
__device__ __forceinline__ void multiply_phases(
    float (&sums)[PHASES][M][N][4], const uint4 (&left)[TAPS][PHASES][PAIRS / 8][FRAGMENTS][32],
    const uint32_t (&right)[PAIRS][COLUMNS], int fragment, int column, const unsigned (&active)[TAPS]) {
  const int lane = threadIdx.x % 32, group = lane / 4, member = lane % 4;
  #pragma unroll
  for (int tap = 0; tap < TAPS; ++tap) {
    #pragma unroll
    for (int k = 0; k < PAIRS / 8; ++k) {
      uint32_t b[N][2];
      #pragma unroll
      for (int j = 0; j < N; ++j) {
        b[j][0] = right[k * 8 + member][column - tap * STEP + j * 8 + group];
        b[j][1] = right[k * 8 + member + 4][column - tap * STEP + j * 8 + group];
      }
      #pragma unroll
      for (int phase = 0; phase < PHASES; ++phase) {
        if (active[tap] >> phase & 1) {
          #pragma unroll
          for (int i = 0; i < M; ++i) {
            const uint4 four = left[tap][phase][k][fragment + i][lane];
            const uint32_t a[4] = {four.x, four.y, four.z, four.w};
            #pragma unroll
            for (int j = 0; j < N; ++j) multiply_add<__half>(sums[phase][i][j], a, b[j][0], b[j][1]);
          }
        }
      }
    }
  }
}
