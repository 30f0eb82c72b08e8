#include "tensor_map.h"

namespace ptx {
namespace {

constexpr int64_t kMostBox = 256, kMostStep = 8, kMostPixels = 1024;
constexpr uint64_t kAligned = 16;
const char* const kInvalid = "CUDA_ERROR_INVALID_VALUE";

// Bytes of an element by CUtensorMapDataType; 0: packed or rounded on the way, which is not emulated.
uint64_t element_bytes(int64_t type) {
  constexpr uint64_t known[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4};
  return type >= 0 && type < (int64_t)(sizeof known / sizeof *known) ? known[type] : 0;
}

bool floating(int64_t type) { return type >= 6 && type <= 10; }

class Numbers {
 public:
  Numbers(const int64_t* numbers, size_t count) : next_(numbers), end_(numbers + count) {}
  int64_t one() { return next_ < end_ ? *next_++ : (short_ = true, 0); }
  void some(int64_t* into, int count) { for (int k = 0; k < count; ++k) into[k] = one(); }
  bool complete() const { return !short_ && next_ == end_; }

 private:
  const int64_t *next_, *end_;
  bool short_ = false;
};

bool valid(const TensorMap& m) {
  if (m.address % kAligned) return false;
  for (int d = 0; d < m.rank; ++d) {
    if (m.dims[d] < 1 || m.dims[d] > 1ll << 32 || m.steps[d] < 1 || m.steps[d] > kMostStep) return false;
    if (d && (m.strides[d] % kAligned || m.strides[d] >= 1ull << 40)) return false;
    if (!m.im2col && (m.box[d] < 1 || m.box[d] > kMostBox)) return false;
  }
  if (m.im2col && (m.channels < 1 || m.channels > kMostBox || m.pixels < 1 || m.pixels > kMostPixels)) return false;
  const uint64_t row = (uint64_t)(m.im2col ? m.channels : m.box[0]) * m.element_bytes;
  return row % kAligned == 0 && (!m.swizzle || row <= (uint64_t)m.swizzle);
}

}  // namespace

int64_t TensorMap::rows() const {
  if (im2col) return pixels;
  int64_t count = 1;
  for (int d = 1; d < rank; ++d) count *= (box[d] + steps[d] - 1) / steps[d];
  return count;
}

std::string read_tensor_map(bool im2col, const int64_t* numbers, size_t count, TensorMap& m) {
  Numbers from(numbers, count);
  const int64_t type = from.one(), rank = from.one();
  m.im2col = im2col;
  m.address = (uint64_t)from.one();
  const int64_t interleave = from.one(), swizzle = from.one();
  from.one();   // how much of a line the L2 cache fetches
  const int64_t fill = from.one();
  if (rank < (im2col ? 3 : 1) || rank > kMostDimensions) return kInvalid;
  m.rank = (int)rank;
  m.element_bytes = element_bytes(type);
  from.some(m.dims, m.rank);
  m.strides[0] = m.element_bytes;
  from.some((int64_t*)m.strides + 1, m.rank - 1);
  if (im2col) {
    from.some(m.lower + 1, m.rank - 2);
    from.some(m.upper + 1, m.rank - 2);
    m.channels = from.one();
    m.pixels = from.one();
  } else {
    from.some(m.box, m.rank);
  }
  from.some(m.steps, m.rank);
  if (!from.complete()) return kInvalid;
  if (!m.element_bytes) return "not emulated: a tensor map of data type " + std::to_string(type);
  if (interleave) return "not emulated: a tensor map with interleaved channels";
  if (swizzle < 0 || swizzle > 3) return "not emulated: a tensor map with swizzle mode " + std::to_string(swizzle);
  m.swizzle = swizzle ? 16 << swizzle : 0;
  m.nan_outside = fill == 1;
  m.flushes = type == 10;
  if (m.nan_outside && !floating(type)) return kInvalid;
  if (!valid(m)) return kInvalid;
  if (m.swizzle && m.row_elements() * (int64_t)m.element_bytes != m.swizzle && m.rows() > 1)
    return "not emulated: rows of a tensor map that are shorter than its swizzle";
  return "";
}

}  // namespace ptx
