// The worker of the emulated device: the same candidate, the same commands as worker.cpp, but the CUDA
// runtime that its shims offer is the PTX machine. There is no timing here: the GPU model does that.
//
//   arena PATH BYTES        the first line: map the judge's memory, a file; the answer is "ready"
//   load SO PTX             load a candidate: its host code and its device code
//   tensors N OFFSET BYTES NAME ...    what the candidate may touch in the arena from now on
//   call POISON ACCOUNT N A1 ... AN    as in worker.cpp; the answer also has findings and counts
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "protocol.h"
#include "worker.h"

extern "C" {
struct Machine;
struct Loaded;
Machine* ptx_machine_new();
void ptx_memory_add(Machine*, uint64_t start, uint64_t bytes, const char* name, int tracked);
int ptx_memory_remove(Machine*, uint64_t start);
const char* ptx_load(Machine*, const char* text, uint64_t length, Loaded** handle);
const char* ptx_launch(Machine*, Loaded*, const char* kernel, const uint32_t* grid, const uint32_t* block,
                       uint64_t dynamic_shared, const uint8_t* parameters, uint64_t parameter_bytes, uint64_t budget,
                       int threads);
}

namespace {

constexpr uint64_t kBudget = 50'000'000;  // warp instructions of one warp

struct Kernel {
  std::string name;
  std::vector<std::pair<uint64_t, uint64_t>> parameters;  // offset and bytes of each
};

FILE* replies;
Machine* machine;
Loaded* module;
std::string description;
char* arena;
size_t arena_bytes;
void (*candidate)(void* const*, cudaStream_t);
std::map<const void*, Kernel> kernels;
std::map<const void*, std::string> variables;
std::map<void*, size_t> scratch;
std::vector<uint64_t> tensors;
std::string launches;      // reports of this call, as JSON, comma-separated
std::string error_text;
std::vector<std::string> violations;
int poison = -1;
int threads = 1;
cudaError_t last_error = cudaSuccess;
cudaStream_t given = (cudaStream_t)(uintptr_t)0x5bd1e995;

void answer(const std::string& fields) {
  fprintf(replies, "{%s}\n", fields.c_str());
  fflush(replies);
}

void fail(const std::string& what) { answer("\"fault\": " + quoted(what)); }

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
  std::string report =
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

bool map_arena(std::istringstream& words) {
  std::string command, path;
  words >> command >> path >> arena_bytes;
  int file = open(path.c_str(), O_RDWR);
  if (command != "arena" || file < 0) return false;
  void* mapped = mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  arena = (char*)mapped;
  return mapped != MAP_FAILED;
}

void do_load(std::istringstream& words) {
  std::string object, device_code;
  words >> object >> device_code;
  std::ifstream file(device_code);
  std::stringstream text;
  text << file.rdbuf();
  description = ptx_load(machine, text.str().data(), text.str().size(), &module);
  if (!module) return fail("load: " + description);
  void* library = dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return fail(std::string("load: ") + dlerror());
  candidate = (void (*)(void* const*, cudaStream_t))dlsym(library, "kernelblaster_call");
  if (!candidate) return fail(std::string("load: ") + dlerror());
  answer("\"ok\": true");
}

void do_tensors(std::istringstream& words) {
  for (uint64_t start : tensors) ptx_memory_remove(machine, start);
  tensors.clear();
  size_t count = 0;
  words >> count;
  for (size_t i = 0; i < count; ++i) {
    uint64_t offset = 0, bytes = 0;
    std::string name;
    words >> offset >> bytes >> name;
    if (!bytes || offset + bytes > arena_bytes) continue;
    uint64_t start = (uint64_t)(uintptr_t)(arena + offset);
    ptx_memory_add(machine, start, bytes, name.c_str(), 0);
    tensors.push_back(start);
  }
  answer("\"ok\": true");
}

void do_call(std::istringstream& words) {
  int accounting = 0;
  words >> poison >> accounting;
  Arguments arguments(words, arena);
  launches.clear();
  error_text.clear();
  violations.clear();
  last_error = cudaSuccess;
  candidate(arguments.pointers.data(), given);
  size_t live = 0;
  for (auto& [pointer, bytes] : scratch) live += bytes;
  std::ostringstream out;
  out << "\"error\": " << quoted(error_text) << ", \"live_bytes\": " << live << ", \"violations\": [";
  for (size_t i = 0; i < violations.size(); ++i) out << (i ? ", " : "") << quoted(violations[i]);
  out << "], \"work\": [" << launches << "]";
  answer(out.str());
}

}  // namespace

// What the shared sandbox code needs from a worker; the real runtime is never looked up here.
void* real_symbol(const char*) { abort(); }

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
  memset(*pointer, poison >= 0 ? poison : 0, rounded);
  scratch[*pointer] = bytes;
  ptx_memory_add(machine, (uint64_t)(uintptr_t)*pointer, bytes, "scratch", 1);
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
  for (auto& [start, size] : scratch)
    if (p >= (char*)start && p + bytes <= (char*)start + size) return true;
  return false;
}
static void entry(const char* name) {
  launches += std::string(launches.empty() ? "" : ", ") + "{\"name\": \"" + name +
              "\", \"grid\": [1, 1, 1], \"block\": [1, 1, 1], \"shared_bytes\": 0}";
}
cudaError_t cudaMemsetAsync(void* pointer, int value, size_t bytes, cudaStream_t stream) {
  check_stream(stream, "[memset]");
  if (!inside(pointer, bytes)) return failed(cudaErrorInvalidValue, "[memset]: outside device memory");
  memset(pointer, value, bytes);
  return entry("[memset]"), cudaSuccess;
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
  memmove(target, source, bytes);
  return entry("[memcpy]"), cudaSuccess;
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
  return entry("[memcpy]"), cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, const void*) { memset(a, 0, sizeof *a); a->maxThreadsPerBlock = 1024; return cudaSuccess; }
cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaGetDevice(int* device) { *device = 0; return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) { *count = 1; return cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount: *value = 132; break;
    case cudaDevAttrMaxThreadsPerBlock: *value = 1024; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = 48 << 10; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 227 << 10; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = 228 << 10; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
    case cudaDevAttrComputeCapabilityMinor: *value = 0; break;
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
  p->multiProcessorCount = 132;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsPerMultiProcessor = 2048;
  p->sharedMemPerBlock = 48 << 10;
  p->sharedMemPerBlockOptin = 227 << 10;
  p->sharedMemPerMultiprocessor = 228 << 10;
  p->warpSize = 32;
  p->major = 9;
  p->regsPerBlock = 65536;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int block, size_t shared) {
  int by_shared = shared ? (int)((228u << 10) / (shared + 1024)) : 32;
  *blocks = std::max(1, std::min({32, 2048 / std::max(block, 1), by_shared}));
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* f, int block, size_t shared, unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, f, block, shared);
}
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void*, int blocks, int) {
  *bytes = (228u << 10) / std::max(blocks, 1) - 1024;
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

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (argc < 3) return 2;
  replies = fdopen(dup(STDOUT_FILENO), "w");
  int nowhere = open("/dev/null", O_RDWR);
  dup2(nowhere, STDOUT_FILENO);
  leave_network();
  machine = ptx_machine_new();
  threads = std::max(1u, std::thread::hardware_concurrency());
  char* line = nullptr;
  size_t capacity = 0;
  // The arena comes first, before the sandbox closes: it is the one file that is opened for writing.
  if (getline(&line, &capacity, stdin) <= 0) return 2;
  std::istringstream first(line);
  if (!map_arena(first)) {
    fail("the arena cannot be mapped");
    return 4;
  }
  std::string gaps = close_sandbox(strtoull(argv[2], nullptr, 10), true);
  answer("\"ready\": true, \"flush_us\": 0, \"sandbox_gaps\": " + quoted(gaps));
  while (getline(&line, &capacity, stdin) > 0) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "load") do_load(words);
    else if (command == "tensors") do_tensors(words);
    else if (command == "call") do_call(words);
    else if (!command.empty()) fail("unknown command " + command);
  }
  _Exit(0);
}
