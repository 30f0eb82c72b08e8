// Tensor maps: how cp.async.bulk.tensor sees a tensor in global memory.
#pragma once
#include "machine.h"

namespace ptx {

constexpr int kMostDimensions = 5;

// What cuTensorMapEncodeTiled or cuTensorMapEncodeIm2col was asked for. Dimensions go from the one whose elements lie side
// by side to the outermost.
struct TensorMap {
  bool im2col = false, nan_outside = false, flushes = false;
  int rank = 0, swizzle = 0;                     // of 0, 32, 64 or 128 bytes
  uint64_t address = 0, element_bytes = 0;
  int64_t dims[kMostDimensions] = {0};
  uint64_t strides[kMostDimensions] = {0};       // in bytes; the first is element_bytes
  int64_t box[kMostDimensions] = {0}, steps[kMostDimensions] = {0};
  int64_t lower[kMostDimensions] = {0}, upper[kMostDimensions] = {0};   // of im2col, by dimension: corners of the base pixels
  int64_t channels = 0, pixels = 0;              // of im2col

  // Elements of a row in shared memory, and rows, of one copy.
  int64_t row_elements() const { return im2col ? channels : (box[0] + steps[0] - 1) / steps[0]; }
  int64_t rows() const;
};

// The maps of the calls that are under way, by number. Where a kernel finds one, there is a mark, and its number.
struct TensorMaps {
  std::map<uint64_t, TensorMap> known;
  uint64_t mark[2] = {0, 0};
};

// Reads the numbers of a launch list: type, rank, address, interleave, swizzle, promotion, fill, then dims, strides, and
// box and steps, or corners, channels, pixels and steps. Returns what CUDA objects to, or what is not emulated ("not
// emulated: ..."); empty if nothing.
std::string read_tensor_map(bool im2col, const int64_t* numbers, size_t count, TensorMap& map);

}  // namespace ptx
