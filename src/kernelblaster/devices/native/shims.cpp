// The CUDA runtime as a candidate sees it. A candidate is linked against no runtime at all, so
// every function that it may use is one of these: they forward to the real runtime, keep the
// ledger, refuse other streams, and hand out scratch memory filled with rubbish.
#include "worker.h"

#include <cuda.h>
#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <unordered_map>

void* real_symbol(const char* name) {
  static void* runtime = nullptr;
  if (!runtime) {
    const char* path = getenv("KERNELBLASTER_CUDART");
    runtime = dlopen(path ? path : "libcudart.so.13", RTLD_NOW | RTLD_LOCAL);
    if (!runtime) {
      fprintf(stderr, "worker: no CUDA runtime: %s\n", dlerror());
      _Exit(3);
    }
  }
  static std::unordered_map<std::string, void*> known;
  void*& symbol = known[name];
  if (!symbol) symbol = dlsym(runtime, name);
  if (!symbol) {
    fprintf(stderr, "worker: the CUDA runtime has no %s\n", name);
    _Exit(3);
  }
  return symbol;
}

Ledger& ledger() {
  static Ledger* only = new Ledger;
  return *only;
}

void Ledger::begin_call() {
  work.clear();
  violations.clear();
  first_error.clear();
}

void Ledger::violation(const std::string& what) {
  for (const auto& seen : violations)
    if (seen == what) return;
  if (violations.size() < 16) violations.push_back(what);
}

void Ledger::note_error(cudaError_t error, const char* where) {
  if (error == cudaSuccess || !first_error.empty()) return;
  first_error = std::string(where) + ": " + REAL(cudaGetErrorName)(error) + ", " +
                REAL(cudaGetErrorString)(error);
}

namespace {

std::unordered_map<const void*, std::string>& kernel_names() {
  static auto* names = new std::unordered_map<const void*, std::string>;
  return *names;
}
std::map<void*, size_t>& scratch() {
  static auto* blocks = new std::map<void*, size_t>;
  return *blocks;
}

void check_stream(cudaStream_t stream, const char* what) {
  if (ledger().stream && stream != ledger().stream)
    ledger().violation(std::string(what) + " on another stream than the given one");
}

std::string name_of(const void* function) {
  auto found = kernel_names().find(function);
  return found == kernel_names().end() ? "unknown" : found->second;
}

// Runs `put` (which puts work on the stream) and enters it into the ledger.
template <typename Put>
cudaError_t entered(const std::string& name, dim3 grid, dim3 block, size_t shared_bytes,
                    cudaStream_t stream, Put put) {
  Ledger& book = ledger();
  check_stream(stream, name.c_str());
  Work work{name, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared_bytes, nullptr, nullptr};
  if (book.accounting) {
    REAL(cudaEventCreate)(&work.begin);
    REAL(cudaEventCreate)(&work.end);
    REAL(cudaEventRecord)(work.begin, stream);
  }
  cudaError_t error = put();
  if (book.accounting) REAL(cudaEventRecord)(work.end, stream);
  book.note_error(error, name.c_str());
  if (book.work.size() < 100000) book.work.push_back(work);
  return error;
}

bool device_pointer(const void* pointer) {
  cudaPointerAttributes attributes{};
  if (REAL(cudaPointerGetAttributes)(&attributes, pointer) != cudaSuccess) return false;
  return attributes.type == cudaMemoryTypeDevice;
}

void check_copy(const void* target) {
  if (!device_pointer(target)) ledger().violation("a copy to the host");
}

}  // namespace

extern "C" {

// --- registration of the candidate's kernels ---------------------------------------------------
#define FORWARD(result, name, parameters, arguments)                         \
  __attribute__((visibility("default"))) result name parameters {            \
    using Function = result parameters;                                      \
    return reinterpret_cast<Function*>(real_symbol(#name)) arguments;        \
  }
FORWARD(void**, __cudaRegisterFatBinary, (void* cubin), (cubin))
FORWARD(void, __cudaRegisterFatBinaryEnd, (void** handle), (handle))
FORWARD(void, __cudaUnregisterFatBinary, (void** handle), (handle))
FORWARD(char, __cudaInitModule, (void** handle), (handle))
FORWARD(void, __cudaRegisterVar,
        (void** handle, char* host, char* device, const char* name, int ext, size_t size, int constant, int global),
        (handle, host, device, name, ext, size, constant, global))
FORWARD(unsigned, __cudaPushCallConfiguration, (dim3 grid, dim3 block, size_t shared, void* stream),
        (grid, block, shared, stream))
FORWARD(cudaError_t, __cudaPopCallConfiguration, (dim3* grid, dim3* block, size_t* shared, void* stream),
        (grid, block, shared, stream))

void __cudaRegisterFunction(void** handle, const char* host, char* device, const char* name, int limit,
                            uint3* tid, uint3* bid, dim3* block, dim3* grid, int* warp) {
  int status = 0;
  char* readable = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  kernel_names()[host] = status == 0 && readable ? readable : name;
  free(readable);
  using Function = void(void**, const char*, char*, const char*, int, uint3*, uint3*, dim3*, dim3*, int*);
  reinterpret_cast<Function*>(real_symbol("__cudaRegisterFunction"))(handle, host, device, name, limit, tid,
                                                                     bid, block, grid, warp);
}

// --- launches -------------------------------------------------------------------------------------
cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared,
                             cudaStream_t stream) {
  return entered(name_of(function), grid, block, shared, stream, [&] {
    return REAL(cudaLaunchKernel)(function, grid, block, arguments, shared, stream);
  });
}

cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                        size_t shared, cudaStream_t stream) {
  using Function = cudaError_t(const void*, dim3, dim3, void**, size_t, cudaStream_t);
  auto launch = reinterpret_cast<Function*>(real_symbol("cudaLaunchCooperativeKernel"));
  return entered(name_of(function), grid, block, shared, stream,
                 [&] { return launch(function, grid, block, arguments, shared, stream); });
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    auto attribute = config->attrs[i].id;
    if (attribute == cudaLaunchAttributeAccessPolicyWindow)
      ledger().violation("a launch attribute that keeps data in the L2 cache");
    if (attribute == cudaLaunchAttributeProgrammaticEvent ||
        attribute == cudaLaunchAttributeLaunchCompletionEvent)
      ledger().violation("a launch attribute that records an event");
  }
  return entered(name_of(function), config->gridDim, config->blockDim, config->dynamicSmemBytes,
                 config->stream, [&] { return REAL(cudaLaunchKernelExC)(config, function, arguments); });
}

// --- memory ---------------------------------------------------------------------------------------
cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  Ledger& book = ledger();
  check_stream(stream, "cudaMallocAsync");
  cudaError_t error = REAL(cudaMallocAsync)(pointer, bytes, stream);
  book.note_error(error, "cudaMallocAsync");
  if (error != cudaSuccess) return error;
  scratch()[*pointer] = bytes;
  book.live_scratch_bytes += bytes;
  book.live_scratch_blocks += 1;
  if (book.scratch_poison >= 0) REAL(cudaMemsetAsync)(*pointer, book.scratch_poison, bytes, stream);
  return error;
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  Ledger& book = ledger();
  check_stream(stream, "cudaFreeAsync");
  auto block = scratch().find(pointer);
  if (block == scratch().end()) {
    book.violation("cudaFreeAsync of memory that cudaMallocAsync did not give");
    return cudaErrorInvalidValue;
  }
  book.live_scratch_bytes -= block->second;
  book.live_scratch_blocks -= 1;
  scratch().erase(block);
  cudaError_t error = REAL(cudaFreeAsync)(pointer, stream);
  book.note_error(error, "cudaFreeAsync");
  return error;
}

cudaError_t cudaMemsetAsync(void* pointer, int value, size_t bytes, cudaStream_t stream) {
  return entered("[memset]", dim3(1), dim3(1), 0, stream,
                 [&] { return REAL(cudaMemsetAsync)(pointer, value, bytes, stream); });
}

cudaError_t cudaMemset2DAsync(void* pointer, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  return entered("[memset]", dim3(1), dim3(1), 0, stream,
                 [&] { return REAL(cudaMemset2DAsync)(pointer, pitch, value, width, height, stream); });
}

cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  check_copy(target);
  return entered("[memcpy]", dim3(1), dim3(1), 0, stream,
                 [&] { return REAL(cudaMemcpyAsync)(target, source, bytes, kind, stream); });
}

cudaError_t cudaMemcpy2DAsync(void* target, size_t target_pitch, const void* source, size_t source_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  check_copy(target);
  return entered("[memcpy]", dim3(1), dim3(1), 0, stream, [&] {
    return REAL(cudaMemcpy2DAsync)(target, target_pitch, source, source_pitch, width, height, kind, stream);
  });
}

cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* source, size_t bytes, size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream) {
  return entered("[memcpy]", dim3(1), dim3(1), 0, stream, [&] {
    return REAL(cudaMemcpyToSymbolAsync)(symbol, source, bytes, offset, kind, stream);
  });
}

FORWARD(cudaError_t, cudaGetSymbolAddress, (void** pointer, const void* symbol), (pointer, symbol))

// --- questions ------------------------------------------------------------------------------------
FORWARD(cudaError_t, cudaFuncSetAttribute, (const void* function, cudaFuncAttribute attribute, int value),
        (function, attribute, value))
FORWARD(cudaError_t, cudaFuncGetAttributes, (cudaFuncAttributes * attributes, const void* function),
        (attributes, function))
FORWARD(cudaError_t, cudaFuncSetCacheConfig, (const void* function, cudaFuncCache config), (function, config))
FORWARD(cudaError_t, cudaGetDevice, (int* device), (device))
FORWARD(cudaError_t, cudaGetDeviceCount, (int* count), (count))
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
FORWARD(cudaError_t, cudaDeviceGetAttribute, (int* value, cudaDeviceAttr attribute, int device),
        (value, attribute, device))
#if CUDART_VERSION >= 13000
FORWARD(cudaError_t, cudaGetDeviceProperties, (cudaDeviceProp * properties, int device), (properties, device))
#else
#undef cudaGetDeviceProperties
FORWARD(cudaError_t, cudaGetDeviceProperties_v2, (cudaDeviceProp * properties, int device),
        (properties, device))
#endif
FORWARD(cudaError_t, cudaOccupancyMaxActiveBlocksPerMultiprocessor,
        (int* blocks, const void* function, int threads, size_t shared), (blocks, function, threads, shared))
FORWARD(cudaError_t, cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
        (int* blocks, const void* function, int threads, size_t shared, unsigned flags),
        (blocks, function, threads, shared, flags))
FORWARD(cudaError_t, cudaOccupancyAvailableDynamicSMemPerBlock,
        (size_t* bytes, const void* function, int blocks, int threads), (bytes, function, blocks, threads))
FORWARD(cudaError_t, cudaOccupancyMaxActiveClusters,
        (int* clusters, const void* function, const cudaLaunchConfig_t* config), (clusters, function, config))
FORWARD(cudaError_t, cudaOccupancyMaxPotentialClusterSize,
        (int* size, const void* function, const cudaLaunchConfig_t* config), (size, function, config))
FORWARD(cudaError_t, cudaGetLastError, (), ())
FORWARD(cudaError_t, cudaPeekAtLastError, (), ())
FORWARD(const char*, cudaGetErrorString, (cudaError_t error), (error))
FORWARD(const char*, cudaGetErrorName, (cudaError_t error), (error))

// Waiting is harmless, and means the given stream.
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  check_stream(stream, "cudaStreamSynchronize");
  return REAL(cudaStreamSynchronize)(stream);
}
cudaError_t cudaDeviceSynchronize() { return REAL(cudaDeviceSynchronize)(); }

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                CUtensorMapFloatOOBfill fill) {
  static void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  auto encode = driver ? reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(dlsym(driver, "cuTensorMapEncodeTiled"))
                       : nullptr;
  if (!encode) return CUDA_ERROR_NOT_SUPPORTED;
  return encode(map, type, rank, address, dims, strides, box, element_strides, interleave, swizzle, promotion, fill);
}

}  // extern "C"
