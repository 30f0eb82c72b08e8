// The CUDA runtime that a candidate sees on the emulated device: kernels go to the PTX machine, memory is the host's,
// streams are one, and whatever breaks the contract is written down.
#include "emulated.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "protocol.h"

namespace emulated {

Machine* machine;
Loaded* module;
std::string description;
Gpu gpu = {132, 2048, 228 << 10, 9, 0};
char* arena;
size_t arena_bytes;
int threads = 1;
cudaStream_t given = (cudaStream_t)(uintptr_t)0x5bd1e995;
Mode mode = Execute;
std::vector<double> models;
int poison = -1;
std::map<void*, Scratch> scratch;
std::string launches;
std::string error_text;
std::vector<std::string> violations;

}  // namespace emulated

using namespace emulated;

namespace {

constexpr uint64_t kBudget = 50'000'000;   // warp instructions of one warp
constexpr int kReservedShared = 1 << 10;   // of each block's, for the driver
std::map<const void*, Kernel> kernels;
std::map<const void*, std::string> variables;
int allocated = 0;                         // by this call
size_t launched = 0;
cudaError_t last_error = cudaSuccess;

void violation(const std::string& what) {
  if (violations.size() < 16) violations.push_back(what);
}

cudaError_t failed(cudaError_t error, const std::string& what) {
  if (error_text.empty()) error_text = what;
  return last_error = error;
}

void check_stream(cudaStream_t stream, const char* what) {
  if (stream != given) violation(std::string(what) + " on another stream than the given one");
}

// The offsets and sizes of a kernel's parameters, from the description that the machine gave.
std::vector<std::pair<uint64_t, uint64_t>> parameters_of(const std::string& name) {
  std::vector<std::pair<uint64_t, uint64_t>> result;
  size_t at = description.find("\"name\": \"" + name + "\"");
  if (at == std::string::npos) return result;
  at = description.find("\"parameters\": [", at) + strlen("\"parameters\": [");
  while (description[at] == '[') {
    uint64_t offset = 0, bytes = 0;
    sscanf(description.c_str() + at, "[%lu, %lu]", &offset, &bytes);
    result.push_back({offset, bytes});
    at = description.find(']', at) + 1;
    while (description[at] == ',' || description[at] == ' ') ++at;
  }
  return result;
}

cudaError_t launch(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream) {
  Kernel& kernel = kernels[function];
  check_stream(stream, kernel.name.c_str());
  if (kernel.parameters.empty()) kernel.parameters = parameters_of(kernel.name);
  std::vector<uint8_t> packed(64);
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    auto [offset, bytes] = kernel.parameters[i];
    if (packed.size() < offset + bytes) packed.resize(offset + bytes);
    memcpy(&packed[offset], arguments[i], bytes);
  }
  uint32_t g[3] = {grid.x, grid.y, grid.z}, b[3] = {block.x, block.y, block.z};
  if (mode == Count) {
    size_t first = launched++ * kModelValues;
    if (first + kModelValues > models.size()) return failed(cudaErrorUnknown, "it launched more than was planned");
    ptx_model(machine, &models[first], (int)kModelValues);
  }
  std::string report = mode == Plan ? "{}" :
      ptx_launch(machine, module, kernel.name.c_str(), g, b, shared, packed.data(), packed.size(), kBudget, threads);
  std::ostringstream entry;
  entry << "{\"name\": " << quoted(kernel.name) << ", \"grid\": [" << g[0] << ", " << g[1] << ", " << g[2]
        << "], \"block\": [" << b[0] << ", " << b[1] << ", " << b[2] << "], \"shared_bytes\": " << shared
        << ", \"report\": " << report << "}";
  launches += (launches.empty() ? "" : ", ") + entry.str();
  if (report.compare(0, 11, "{\"invalid\":") == 0)
    return failed(cudaErrorInvalidConfiguration, kernel.name + ": invalid configuration");
  if (report.compare(0, 9, "{\"error\":") == 0 || report.compare(0, 15, "{\"unsupported\":") == 0)
    return failed(cudaErrorNotSupported, kernel.name + ": " + report);
  if (report.find("\"stopped\": true") != std::string::npos)
    return failed(cudaErrorLaunchFailure, kernel.name + ": stopped by a finding");
  return cudaSuccess;
}

}  // namespace

void emulated::begin_call() {
  launches.clear();
  error_text.clear();
  violations.clear();
  allocated = 0;
  launched = 0;
  last_error = cudaSuccess;
}

extern "C" {

void** __cudaRegisterFatBinary(void*) { static void* handle; return &handle; }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
  kernels[host].name = name;
}
void __cudaRegisterVar(void**, char* host, char*, const char* name, int, size_t, int, int) { variables[host] = name; }

static struct { dim3 grid, block; size_t shared; void* stream; } pushed;
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
  pushed = {grid, block, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  *grid = pushed.grid;
  *block = pushed.block;
  *shared = pushed.shared;
  *(void**)stream = pushed.stream;
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* f, dim3 grid, dim3 block, void** a, size_t shared, cudaStream_t stream) {
  return launch(f, grid, block, a, shared, stream);
}
cudaError_t cudaLaunchCooperativeKernel(const void* f, dim3, dim3, void**, size_t, cudaStream_t) {
  return failed(cudaErrorNotSupported, kernels[f].name + ": cooperative launches are not emulated");
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* f, void** a) {
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    if (config->attrs[i].id == cudaLaunchAttributeAccessPolicyWindow)
      violation("a launch attribute that keeps data in the L2 cache");
    if (config->attrs[i].id == cudaLaunchAttributeClusterDimension)
      return failed(cudaErrorNotSupported, kernels[f].name + ": block clusters are not emulated");
  }
  return launch(f, config->gridDim, config->blockDim, a, config->dynamicSmemBytes, config->stream);
}

cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  check_stream(stream, "cudaMallocAsync");
  size_t rounded = (bytes + 511) / 256 * 256;
  *pointer = aligned_alloc(256, rounded);
  if (!*pointer) return failed(cudaErrorMemoryAllocation, "cudaMallocAsync: out of memory");
  if (mode == Execute || rounded < 1 << 20) memset(*pointer, poison >= 0 ? poison : 0, rounded);
  scratch[*pointer] = {bytes, ++allocated};
  ptx_memory_add(machine, (uint64_t)(uintptr_t)*pointer, bytes, "scratch", mode == Execute);
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  check_stream(stream, "cudaFreeAsync");
  if (!scratch.erase(pointer)) {
    violation("cudaFreeAsync of memory that cudaMallocAsync did not give");
    return failed(cudaErrorInvalidValue, "cudaFreeAsync: not from cudaMallocAsync");
  }
  ptx_memory_remove(machine, (uint64_t)(uintptr_t)pointer);
  free(pointer);
  return cudaSuccess;
}

static bool inside(const void* pointer, size_t bytes) {
  const char* p = (const char*)pointer;
  if (p >= arena && p + bytes <= arena + arena_bytes) return true;
  for (auto& [start, held] : scratch)
    if (p >= (char*)start && p + bytes <= (char*)start + held.bytes) return true;
  return false;
}
static void wrote(void* pointer, size_t bytes) { ptx_memory_written(machine, (uint64_t)(uintptr_t)pointer, bytes); }
// Work that is no kernel. It has not happened where costs are counted: only its size matters there.
static void entry(const char* name, size_t bytes) {
  launches += std::string(launches.empty() ? "" : ", ") + "{\"name\": \"" + name +
              "\", \"grid\": [1, 1, 1], \"block\": [1, 1, 1], \"shared_bytes\": 0, \"bytes\": " +
              std::to_string(bytes) + "}";
}
cudaError_t cudaMemsetAsync(void* pointer, int value, size_t bytes, cudaStream_t stream) {
  check_stream(stream, "[memset]");
  if (!inside(pointer, bytes)) return failed(cudaErrorInvalidValue, "[memset]: outside device memory");
  if (mode == Execute) memset(pointer, value, bytes), wrote(pointer, bytes);
  return entry("[memset]", bytes), cudaSuccess;
}
cudaError_t cudaMemset2DAsync(void* pointer, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
  for (size_t y = 0; y < height; ++y)
    if (cudaMemsetAsync((char*)pointer + y * pitch, value, width, stream) != cudaSuccess) return last_error;
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  check_stream(stream, "[memcpy]");
  if (!inside(target, bytes)) {
    violation("a copy to the host");
    return failed(cudaErrorInvalidValue, "[memcpy]: outside device memory");
  }
  if (mode == Execute) memmove(target, source, bytes), wrote(target, bytes);
  return entry("[memcpy]", bytes), cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void* target, size_t tp, const void* source, size_t sp, size_t width, size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  for (size_t y = 0; y < height; ++y)
    if (cudaMemcpyAsync((char*)target + y * tp, (const char*)source + y * sp, width, kind, stream) != cudaSuccess)
      return last_error;
  return cudaSuccess;
}
cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  std::string key = "\"" + variables[symbol] + "\": [";
  size_t at = description.find(key, description.find("\"globals\""));
  if (at == std::string::npos) return failed(cudaErrorInvalidSymbol, "unknown symbol");
  *pointer = (void*)strtoull(description.c_str() + at + key.size(), nullptr, 10);
  return cudaSuccess;
}
cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* source, size_t bytes, size_t offset, cudaMemcpyKind,
                                    cudaStream_t stream) {
  check_stream(stream, "[memcpy]");
  void* pointer = nullptr;
  if (cudaGetSymbolAddress(&pointer, symbol) != cudaSuccess) return last_error;
  memcpy((char*)pointer + offset, source, bytes);
  return entry("[memcpy]", bytes), cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, const void*) { memset(a, 0, sizeof *a); a->maxThreadsPerBlock = 1024; return cudaSuccess; }
cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaGetDevice(int* device) { *device = 0; return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) { *count = 1; return cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount: *value = gpu.multiprocessors; break;
    case cudaDevAttrMaxThreadsPerBlock: *value = 1024; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = gpu.threads; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = 48 << 10; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = gpu.shared_bytes - kReservedShared; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = gpu.shared_bytes; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrComputeCapabilityMajor: *value = gpu.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = gpu.minor; break;
    default: return failed(cudaErrorNotSupported, "an attribute that is not emulated");
  }
  return cudaSuccess;
}
#if CUDART_VERSION >= 13000
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
#else
#undef cudaGetDeviceProperties
cudaError_t cudaGetDeviceProperties_v2(cudaDeviceProp* p, int) {
#endif
  memset(p, 0, sizeof *p);
  p->multiProcessorCount = gpu.multiprocessors;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsPerMultiProcessor = gpu.threads;
  p->sharedMemPerBlock = 48 << 10;
  p->sharedMemPerBlockOptin = gpu.shared_bytes - kReservedShared;
  p->sharedMemPerMultiprocessor = gpu.shared_bytes;
  p->warpSize = 32;
  p->major = gpu.major;
  p->minor = gpu.minor;
  p->regsPerBlock = 65536;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int block, size_t shared) {
  int by_shared = shared ? gpu.shared_bytes / (int)(shared + kReservedShared) : 32;
  *blocks = std::max(1, std::min({32, gpu.threads / std::max(block, 1), by_shared}));
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* f, int block, size_t shared, unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, f, block, shared);
}
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void*, int blocks, int) {
  *bytes = (size_t)(gpu.shared_bytes / std::max(blocks, 1) - kReservedShared);
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveClusters(int*, const void*, const cudaLaunchConfig_t*) { return failed(cudaErrorNotSupported, "block clusters are not emulated"); }
cudaError_t cudaOccupancyMaxPotentialClusterSize(int*, const void*, const cudaLaunchConfig_t*) { return failed(cudaErrorNotSupported, "block clusters are not emulated"); }
cudaError_t cudaGetLastError() { cudaError_t error = last_error; last_error = cudaSuccess; return error; }
cudaError_t cudaPeekAtLastError() { return last_error; }
const char* cudaGetErrorString(cudaError_t error) { return error == cudaSuccess ? "no error" : "an error of the emulated device"; }
const char* cudaGetErrorName(cudaError_t error) { return error == cudaSuccess ? "cudaSuccess" : "cudaError"; }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { check_stream(stream, "cudaStreamSynchronize"); return last_error; }
cudaError_t cudaDeviceSynchronize() { return last_error; }
CUresult cuTensorMapEncodeTiled(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
                                const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // extern "C"
