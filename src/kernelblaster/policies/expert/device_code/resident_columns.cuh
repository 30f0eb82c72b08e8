// Adds up each of the first COUNT values, a power of two, over the lanes of a warp; LANES lanes have those of the same
// numbers. Returns the total of number l % COUNT in lane l, where all lanes have all values.
template <int COUNT, int LANES = 32 / COUNT, int SIZE>
__device__ float spread_sums(float (&values)[SIZE]) {
  if constexpr (COUNT > 1) {
    constexpr int HALF = COUNT / 2;
    const bool upper = threadIdx.x & HALF;
    #pragma unroll
    for (int i = 0; i < HALF; ++i) {
      const float given = upper ? values[i] : values[i + HALF];
      const float kept = upper ? values[i + HALF] : values[i];
      values[i] = kept + __shfl_xor_sync(0xffffffffu, given, HALF);
    }
    return spread_sums<HALF, LANES>(values);
  } else {
    float sum = values[0];
    #pragma unroll
    for (int distance = 16; distance >= 32 / LANES; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    return sum;
  }
}

// COLUMNS columns of a matrix of weights, in the registers of a warp: of each column, lane l has the elements
// 4 * (32 * v + l) to 4 * (32 * v + l) + 3, for v below VECTORS.
template <int COLUMNS, int VECTORS>
struct ResidentColumns {
  float weights[COLUMNS][VECTORS * 4];

  // Multiplies ROWS rows of 128 * VECTORS elements in shared memory by the columns. Lane row * COLUMNS + column gets
  // that result; lanes beyond get nothing of use.
  template <int ROWS>
  __device__ float multiply(const float* rows) const {
    constexpr int COUNT = COLUMNS * ROWS;
    constexpr int PADDED = COUNT > 16 ? 32 : COUNT > 8 ? 16 : COUNT > 4 ? 8 : COUNT > 2 ? 4 : COUNT;
    static_assert(COUNT <= 32);
    const float4* vectors = reinterpret_cast<const float4*>(rows) + threadIdx.x % 32;
    float sums[PADDED] = {};
    #pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
      #pragma unroll
      for (int row = 0; row < ROWS; ++row) {
        const float4 x = vectors[(row * VECTORS + v) * 32];
        #pragma unroll
        for (int column = 0; column < COLUMNS; ++column) {
          const float* w = &weights[column][v * 4];
          sums[row * COLUMNS + column] += x.x * w[0] + x.y * w[1] + x.z * w[2] + x.w * w[3];
        }
      }
    }
    return spread_sums<PADDED>(sums);
  }
};
