#include "pack.cuh"

// Adds the product of two tiles to a thread's sums: its rows and columns come in groups of four, a
// whole block of threads apart, so that a warp reads neighbouring vectors of shared memory.
template <int BLOCK_M, int BLOCK_N, typename T, int M, int N, int K, int ROWS, int COLUMNS>
__device__ __forceinline__ void multiply_tile(
    T (&sums)[M][N], const T (&left)[K][ROWS], const T (&right)[K][COLUMNS], int row, int column) {
  #pragma unroll
  for (int k = 0; k < K; ++k) {
    Pack<T, 4> a[M / 4], b[N / 4];
    #pragma unroll
    for (int i = 0; i < M / 4; ++i) {
      a[i] = *reinterpret_cast<const Pack<T, 4>*>(&left[k][i * (BLOCK_M * 4 / M) + row * 4]);
    }
    #pragma unroll
    for (int j = 0; j < N / 4; ++j) {
      b[j] = *reinterpret_cast<const Pack<T, 4>*>(&right[k][j * (BLOCK_N * 4 / N) + column * 4]);
    }
    #pragma unroll
    for (int i = 0; i < M; ++i) {
      #pragma unroll
      for (int j = 0; j < N; ++j) sums[i][j] += a[i / 4].at[i % 4] * b[j / 4].at[j % 4];
    }
  }
}
