// What the launcher knows of the GPU: for the recorder, which has none.
#include <sstream>

#include "launcher.h"
#include "protocol.h"

CUresult encode(const Operation& o, CUtensorMap* map) {
  const auto& n = o.numbers;   // type rank address interleave swizzle promotion fill, then the arrays
  if (n.size() < 7) return CUDA_ERROR_INVALID_VALUE;
  size_t rank = (size_t)n[1], at = 7;
  auto take = [&](auto* out, size_t count) {
    for (size_t i = 0; i < count; ++i) out[i] = (std::remove_reference_t<decltype(out[0])>)(at < n.size() ? n[at++] : 0);
  };
  cuuint64_t dims[5], strides[5];
  cuuint32_t box[5], steps[5];
  int lower[5], upper[5];
  auto type = (CUtensorMapDataType)n[0];
  auto interleave = (CUtensorMapInterleave)n[3];
  auto swizzle = (CUtensorMapSwizzle)n[4];
  auto promotion = (CUtensorMapL2promotion)n[5];
  auto fill = (CUtensorMapFloatOOBfill)n[6];
  void* address = (void*)(uintptr_t)n[2];
  take(dims, rank);
  take(strides, rank - 1);
  if (!o.im2col) {
    take(box, rank);
    take(steps, rank);
    return driver().cuTensorMapEncodeTiled(map, type, (cuuint32_t)rank, address, dims, strides, box, steps, interleave,
                                           swizzle, promotion, fill);
  }
  cuuint32_t channels_and_pixels[2];
  take(lower, rank - 2);
  take(upper, rank - 2);
  take(channels_and_pixels, 2);
  take(steps, rank);
  return driver().cuTensorMapEncodeIm2col(map, type, (cuuint32_t)rank, address, dims, strides, lower, upper,
                                          channels_and_pixels[0], channels_and_pixels[1], steps, interleave, swizzle,
                                          promotion, fill);
}

CUresult occupancy(const std::string& question, CUfunction function, int threads, size_t other, int cluster, int64_t* value) {
  int count = 0;
  if (question == "shared") {
    size_t bytes = 0;
    CUresult error = driver().cuOccupancyAvailableDynamicSMemPerBlock(&bytes, function, (int)other, threads);
    *value = (int64_t)bytes;
    return error;
  }
  // Beyond the default, shared memory must be asked for before the driver says how often a block with it fits.
  if (other > 48 << 10)
    driver().cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)other);
  if (question == "blocks") {
    CUresult error = driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(&count, function, threads, other);
    *value = count;
    return error;
  }
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim = {(unsigned)cluster, 1, 1};
  CUlaunchConfig config{};
  config.gridDimX = (unsigned)cluster;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = (unsigned)threads;
  config.sharedMemBytes = (unsigned)other;
  if (question == "clusters") {
    config.attrs = &attribute;
    config.numAttrs = 1;
    if (cluster > 8) driver().cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
    CUresult error = driver().cuOccupancyMaxActiveClusters(&count, function, &config);
    *value = count;
    return error;
  }
  if (question != "cluster_size") return CUDA_ERROR_INVALID_VALUE;
  CUresult error = driver().cuOccupancyMaxPotentialClusterSize(&count, function, &config);
  *value = count;
  return error;
}

std::string description() {
  cudaDeviceProp properties{};
  cudaGetDeviceProperties(&properties, 0);
  std::ostringstream out;
  out << "\"name\": " << quoted(properties.name) << ", \"memory\": " << properties.totalGlobalMem << ", \"attributes\": {";
  bool first = true;
  for (int which = 1; which < (int)CU_DEVICE_ATTRIBUTE_MAX; ++which) {
    int value = 0;
    if (driver().cuDeviceGetAttribute(&value, (CUdevice_attribute)which, 0)) continue;
    out << (first ? "" : ", ") << "\"" << which << "\": " << value;
    first = false;
  }
  out << "}";
  return out.str();
}
