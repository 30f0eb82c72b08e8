#include "split_terms.cuh"
#include "tensor_cores.cuh"

// Rounds a thread's elements of a column to halves, divided by the power of two `step`, and puts them into a
// tile as pairs of neighbours along K. Where they outgrow `step`, it becomes larger; returns the factor by which
// sums are to be multiplied that were made with the former one. It starts with the step of a column of zeros.
template <int K, int COLUMNS>
__device__ __forceinline__ float put_halves(
    uint32_t (&tile)[K / 2][COLUMNS], int column, const float (&values)[K], float& step) {
  unsigned largest = 0;
  #pragma unroll
  for (int k = 0; k < K; ++k) largest = max(largest, __float_as_uint(values[k]) & 0x7fffffffu);
  if (largest >= 0x7f800000u) {  // infinities and NaN stay what they are
    largest = 0;
    #pragma unroll
    for (int k = 0; k < K; ++k) {
      if (isfinite(values[k])) largest = max(largest, __float_as_uint(values[k]) & 0x7fffffffu);
    }
  }
  float factor = 1.0f;
  if (__uint_as_float(largest) > step * 32768.0f) {
    const float wider = scale_for(__uint_as_float(largest)) * 64.0f;  // seldom outgrown again
    factor = step / wider;
    step = wider;
  }
  const float inverse = __uint_as_float(0x7f000000u - __float_as_uint(step));
  #pragma unroll
  for (int k = 0; k < K; k += 2) {
    const __half2 pair = __floats2half2_rn(values[k] * inverse, values[k + 1] * inverse);
    tile[k / 2][column] = *reinterpret_cast<const uint32_t*>(&pair);
  }
  return factor;
}

// Adds the product of two tiles to a warp's sums, of M x N fragments of 16 x 8. Tiles lie as [k / 2][row] and
// [k / 2][column], in pairs along K, with lines that are 8 more than a multiple of 32 long: no two lanes meet in a
// bank. Four neighbouring rows or columns belong to one lane, of four fragments, so that it reads them together.
template <int M, int N, int K, int ROWS, int COLUMNS>
__device__ __forceinline__ void multiply_tiles_halves(
    float (&sums)[M][N][4], const uint32_t (&left)[K][ROWS], const uint32_t (&right)[K][COLUMNS], int row,
    int column) {
  const int group = threadIdx.x % 32 / 4, member = threadIdx.x % 4;
  #pragma unroll
  for (int k = 0; k < K; k += 8) {
    uint32_t a[M][4], b[N][2];
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
      #pragma unroll
      for (int i = 0; i < M; i += 2) {
        const uint4 four = *reinterpret_cast<const uint4*>(&left[k + member + half * 4][row + i * 16 + group * 4]);
        a[i][half * 2] = four.x;
        a[i][half * 2 + 1] = four.y;
        a[i + 1][half * 2] = four.z;
        a[i + 1][half * 2 + 1] = four.w;
      }
      #pragma unroll
      for (int j = 0; j < N; j += 4) {
        const uint4 four = *reinterpret_cast<const uint4*>(&right[k + member + half * 4][column + j * 8 + group * 4]);
        b[j][half] = four.x;
        b[j + 1][half] = four.y;
        b[j + 2][half] = four.z;
        b[j + 3][half] = four.w;
      }
    }
    #pragma unroll
    for (int i = 0; i < M; ++i) {
      #pragma unroll
      for (int j = 0; j < N; ++j) multiply_add<__half>(sums[i][j], a[i], b[j][0], b[j][1]);
    }
  }
}

// Multiplies the sums of a warp's columns by the factors of these.
template <int M, int N>
__device__ __forceinline__ void rescale_columns(float (&sums)[M][N][4], const float* factors, int column) {
  const int member = threadIdx.x % 4;
  #pragma unroll
  for (int j = 0; j < N; ++j) {
    #pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float factor = factors[column + j / 4 * 32 + member * 8 + e * 4 + j % 4];
      #pragma unroll
      for (int i = 0; i < M; ++i) {
        sums[i][j][e] *= factor;
        sums[i][j][2 + e] *= factor;
      }
    }
  }
}
