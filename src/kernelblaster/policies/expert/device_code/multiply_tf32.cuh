// Rounded to TF32, to nearest.
__device__ inline uint32_t to_tf32(float value) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
}

// A number as a sum of two of TF32. Of what is not finite, the second one is 0.
__device__ inline void split_tf32(float value, uint32_t& high, uint32_t& low) {
  high = to_tf32(value);
  const float rest = value - __uint_as_float(high);
  low = isfinite(rest) ? to_tf32(rest) : 0u;
}

// sums (16 x 8) += a (16 x 8) * b (8 x 8)
__device__ inline void multiply_add_tf32(float (&sums)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Adds the product of two tiles to a warp's sums, of M x N fragments of 16 x 8. Tiles lie as [k][row] and
// [k][column], with lines that are 8 more than a multiple of 32 long: no two lanes meet in a bank.
template <int TERMS, int M, int N, int K, int ROWS, int COLUMNS>
__device__ __forceinline__ void multiply_tiles_tf32(
    float (&sums)[M][N][4], const float (&left)[K][ROWS], const float (&right)[K][COLUMNS], int row, int column) {
  const int group = threadIdx.x % 32 / 4, member = threadIdx.x % 4;
  #pragma unroll
  for (int k = 0; k < K; k += 8) {
    uint32_t a[TERMS][M][4], b[TERMS][N][2];
    #pragma unroll
    for (int i = 0; i < M * 4; ++i) {
      const float value = left[k + member + i % 4 / 2 * 4][row + i / 4 * 16 + i % 2 * 8 + group];
      if constexpr (TERMS == 1) {
        a[0][i / 4][i % 4] = to_tf32(value);
      } else {
        split_tf32(value, a[0][i / 4][i % 4], a[1][i / 4][i % 4]);
      }
    }
    #pragma unroll
    for (int j = 0; j < N * 2; ++j) {
      const float value = right[k + member + j % 2 * 4][column + j / 2 * 8 + group];
      if constexpr (TERMS == 1) {
        b[0][j / 2][j % 2] = to_tf32(value);
      } else {
        split_tf32(value, b[0][j / 2][j % 2], b[1][j / 2][j % 2]);
      }
    }
    #pragma unroll
    for (int i = 0; i < M; ++i) {
      #pragma unroll
      for (int j = 0; j < N; ++j) {
        if constexpr (TERMS == 2) {
          multiply_add_tf32(sums[i][j], a[1][i], b[0][j]);
          multiply_add_tf32(sums[i][j], a[0][i], b[1][j]);
        }
        multiply_add_tf32(sums[i][j], a[0][i], b[0][j]);
      }
    }
  }
}
