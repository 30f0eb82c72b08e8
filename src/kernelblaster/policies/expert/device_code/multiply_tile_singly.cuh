// Adds the product of two tiles to a thread's only sum.
template <typename T, int K, int ROWS, int COLUMNS>
__device__ __forceinline__ void multiply_tile(
    T (&sums)[1][1], const T (&left)[K][ROWS], const T (&right)[K][COLUMNS], int row, int column) {
  #pragma unroll
  for (int k = 0; k < K; ++k) sums[0][0] += left[k][row] * right[k][column];
}
