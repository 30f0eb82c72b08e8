// Operands of two terms have a scale for each row of so many tiles.
constexpr int TOGETHER = 4;

struct Scales {
  const float *rows, *columns;
  int64_t row_stride, column_stride;

  // For a lane's results: rows are 8 apart, columns come in pairs of neighbours that are 8 apart.
  template <int TERMS, int ROWS, int COLUMNS>
  __device__ void load(
      float (&row)[ROWS], float (&column)[COLUMNS], int part, int first_row, int first_column) const {
    #pragma unroll
    for (int i = 0; i < ROWS; ++i) {
      row[i] = TERMS == 1 ? 1.0f : rows[part * row_stride + first_row + i * 8];
    }
    #pragma unroll
    for (int j = 0; j < COLUMNS / 2; ++j) {
      const float* from = columns + part * column_stride + first_column + j * 8;
      const float2 pair = TERMS == 1 ? float2{1.0f, 1.0f} : *reinterpret_cast<const float2*>(from);
      column[2 * j] = pair.x;
      column[2 * j + 1] = pair.y;
    }
  }
};
