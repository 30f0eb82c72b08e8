// The CUDA runtime as a candidate sees it: nothing runs, everything is written down. A candidate is linked against no
// runtime at all, so these functions are all that it can reach. Device addresses are numbers without memory behind them
// here: host code that follows one ends its process.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <unistd.h>

#include "device_properties.h"
#include "recording.h"

namespace recording {

Request request;

namespace {

std::string list;
size_t operations = 0;

void write_all(const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    ssize_t done = write(3, text.data() + at, text.size() - at);
    if (done <= 0) _exit(9);
    at += (size_t)done;
  }
}

}  // namespace

void put(const std::string& line) {
  if (++operations > kMostOperations || list.size() + line.size() > kMostBytes) {
    write_all("violation a launch list of more than " + std::to_string(kMostOperations) + " operations or " +
              std::to_string(kMostBytes >> 20) + " MB\nend\n");
    _exit(0);
  }
  list += line;
  list += '\n';
}

void hand_over() {
  write_all(list);
  list.clear();
}

}  // namespace recording

using namespace recording;

namespace {

std::map<const void*, std::string> kernel_names, global_names;
std::map<uint64_t, uint64_t> scratch;   // held: address to bytes
uint64_t next_scratch = 0;
int allocated = 0;
std::vector<std::string> definitions;   // of tensor maps, over all calls of this process
std::map<uint64_t, unsigned> used;      // those that this call uses, numbered by their first use
cudaError_t last_error = cudaSuccess;

int violations = 0, errors = 0;
bool recorded = false;                  // this call's list is the one that is handed over

std::string plain(std::string text) {
  for (char& c : text)
    if ((unsigned char)c < 32) c = ' ';
  return text.substr(0, 400);
}

void violation(const std::string& what) {
  if (++violations <= 16) put("violation " + plain(what));
}

cudaError_t failed(cudaError_t error, const std::string& what) {
  if (++errors <= 16) put("error " + plain(what));
  return last_error = error;
}

void check_happened(cudaError_t error) {
  if (error != cudaSuccess && !errors) violation("asks for the text of an error that did not happen");
}

void check_stream(cudaStream_t stream, const std::string& what) {
  if ((uint64_t)(uintptr_t)stream != request.stream) violation(what + " on another stream than the given one");
}

bool on_device(const void* pointer) {
  uint64_t address = (uint64_t)(uintptr_t)pointer;
  return (address >= request.window && address - request.window < request.window_bytes) ||
         (address >= request.elsewhere && address - request.elsewhere < request.elsewhere_bytes);
}

std::string hex(const void* data, size_t bytes) {
  static const char digits[] = "0123456789abcdef";
  std::string text = bytes ? std::string(2 * bytes, '0') : "-";
  for (size_t i = 0; i < bytes; ++i) {
    text[2 * i] = digits[((const unsigned char*)data)[i] >> 4];
    text[2 * i + 1] = digits[((const unsigned char*)data)[i] & 15];
  }
  return text;
}

Kernel* kernel_of(const void* function, std::string* name) {
  auto named = kernel_names.find(function);
  if (named == kernel_names.end()) return nullptr;
  auto found = request.kernels.find(named->second);
  *name = named->second;
  return found == request.kernels.end() ? nullptr : &found->second;
}

// The answer to a question about the GPU. Where nobody has answered it yet, it is handed over with what was recorded so
// far, and the recording starts afresh once it is known.
int64_t fact(const std::string& question) {
  auto known = request.facts.find(question);
  if (known != request.facts.end()) return known->second;
  put("ask " + question);
  hand_over();
  _exit(0);
}

// Writes down what the tensor maps in these bytes were asked to be, the first time that a call uses them, and numbers
// them by that: a map that was made in an earlier call counts as if it had been made in this one.
void use_maps(void* data, size_t bytes) {
  for (size_t at = 0; at + sizeof(CUtensorMap) <= bytes; at += 64) {
    uint64_t words[3];
    memcpy(words, (char*)data + at, sizeof words);
    if (words[0] != kMark[0] || words[1] != kMark[1] || words[2] >= definitions.size()) continue;
    auto [place, fresh] = used.insert({words[2], (unsigned)used.size()});
    if (fresh) put("tensormap " + std::to_string(place->second) + " " + definitions[words[2]]);
    words[2] = place->second;
    memcpy((char*)data + at, words, sizeof words);
  }
}

struct Configuration {
  dim3 grid, block;
  size_t shared = 0;
  unsigned cluster[3] = {0, 0, 0};
  int cooperative = 0, dependent = 0, scheduling = 0;
};

// What a GPU would refuse at once, so that host code with a second plan finds it out here too.
const char* refused(const Kernel& kernel, const Configuration& c) {
  uint64_t threads = (uint64_t)c.block.x * c.block.y * c.block.z;
  if (!threads || threads > (uint64_t)std::min(kernel.max_threads, attribute(cudaDevAttrMaxThreadsPerBlock, 1024)))
    return "invalid configuration: block size";
  if (!c.grid.x || !c.grid.y || !c.grid.z || c.grid.x > 0x7fffffffu || c.grid.y > 65535 || c.grid.z > 65535)
    return "invalid configuration: grid size";
  if (c.block.z > 64) return "invalid configuration: block size";
  if (c.shared + (size_t)kernel.static_shared > (size_t)std::max(kernel.dynamic_limit + kernel.static_shared, 48 << 10))
    return "invalid argument: more dynamic shared memory than cudaFuncSetAttribute allowed";
  const unsigned grid[3] = {c.grid.x, c.grid.y, c.grid.z};
  for (int d = 0; d < 3; ++d)
    if (c.cluster[d] && grid[d] % c.cluster[d]) return "invalid configuration: the grid is no multiple of the cluster";
  return nullptr;
}

cudaError_t launch(const void* function, const Configuration& c, void** arguments, cudaStream_t stream) {
  std::string name;
  Kernel* kernel = kernel_of(function, &name);
  if (!kernel) return failed(cudaErrorInvalidDeviceFunction, "a launch of something that is no kernel of this file");
  check_stream(stream, name);
  if (const char* why = refused(*kernel, c)) return failed(cudaErrorInvalidConfiguration, name + ": " + why);
  size_t bytes = 0;
  for (auto [offset, size] : kernel->parameters) bytes = std::max<size_t>(bytes, offset + size);
  std::string buffer(bytes, '\0');
  for (size_t i = 0; i < kernel->parameters.size(); ++i)
    memcpy(&buffer[kernel->parameters[i].first], arguments[i], kernel->parameters[i].second);
  use_maps(&buffer[0], buffer.size());
  std::ostringstream line;
  line << "launch " << name << ' ' << c.grid.x << ' ' << c.grid.y << ' ' << c.grid.z << ' ' << c.block.x << ' '
       << c.block.y << ' ' << c.block.z << ' ' << c.shared << ' ' << (c.cooperative | c.dependent << 1) << ' '
       << c.cluster[0] << ' ' << c.cluster[1] << ' ' << c.cluster[2] << ' ' << c.scheduling << ' '
       << hex(buffer.data(), buffer.size());
  put(line.str());
  return cudaSuccess;
}

std::string shape_of(const cudaLaunchConfig_t* config) {
  std::ostringstream text;
  text << (uint64_t)config->blockDim.x * config->blockDim.y * config->blockDim.z << ' ' << config->dynamicSmemBytes;
  return text.str();
}

cudaError_t copied(void* target, size_t target_pitch, const void* source, size_t source_pitch, size_t width,
                   size_t height, cudaStream_t stream) {
  check_stream(stream, "[memcpy]");
  if (!on_device(target)) {
    violation("a copy to the host");
    return failed(cudaErrorInvalidValue, "[memcpy]: not to device memory");
  }
  if (!width || !height) return cudaSuccess;
  if (on_device(source)) {
    std::ostringstream line;
    line << "copy " << (uint64_t)(uintptr_t)target << ' ' << target_pitch << ' ' << (uint64_t)(uintptr_t)source << ' '
         << source_pitch << ' ' << width << ' ' << height;
    put(line.str());
    return cudaSuccess;
  }
  for (size_t row = 0; row < height; ++row) {
    if (width > kMostBytes / 2) {
      write_all("violation a copy of " + std::to_string(width) + " bytes from the host\nend\n");
      _exit(0);
    }
    if (!recorded) continue;   // it takes longer than the candidate's own work, which is timed
    std::string bytes((const char*)source + row * source_pitch, width);
    use_maps(&bytes[0], bytes.size());
    put("upload " + std::to_string((uint64_t)(uintptr_t)target + row * target_pitch) + " " +
        hex(bytes.data(), bytes.size()));
  }
  return cudaSuccess;
}

CUresult encoded(CUtensorMap* map, const std::string& what) {
  // One number for maps that are alike: where host code keeps them, the next call leaves them as they are.
  size_t place = (size_t)(std::find(definitions.begin(), definitions.end(), what) - definitions.begin());
  if (place == definitions.size()) definitions.push_back(what);
  uint64_t words[16] = {kMark[0], kMark[1], place};
  memcpy(map, words, sizeof words);
  return CUDA_SUCCESS;
}

template <typename Number>
std::string joined(const Number* numbers, unsigned count) {
  std::string text;
  for (unsigned i = 0; i < count; ++i) text += " " + std::to_string(numbers[i]);
  return text;
}

}  // namespace

void recording::begin_call(bool last) {
  recorded = last;
  list.clear();
  operations = 0;
  scratch.clear();
  next_scratch = 0;
  allocated = violations = errors = 0;
  used.clear();
  last_error = cudaSuccess;
}

extern "C" {

// --- registration ---------------------------------------------------------------------------------
void** __cudaRegisterFatBinary(void*) { static void* handle; return &handle; }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
  kernel_names[host] = name;
}
void __cudaRegisterVar(void**, char* host, char*, const char* name, int, size_t, int, int) { global_names[host] = name; }

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

// --- launches -------------------------------------------------------------------------------------
cudaError_t cudaLaunchKernel(const void* f, dim3 grid, dim3 block, void** a, size_t shared, cudaStream_t stream) {
  return launch(f, {grid, block, shared}, a, stream);
}
cudaError_t cudaLaunchCooperativeKernel(const void* f, dim3 grid, dim3 block, void** a, size_t shared, cudaStream_t s) {
  Configuration c{grid, block, shared};
  c.cooperative = 1;
  return launch(f, c, a, s);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* f, void** a) {
  Configuration c{config->gridDim, config->blockDim, config->dynamicSmemBytes};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config->attrs[i];
    switch (attribute.id) {
      case cudaLaunchAttributeIgnore:
      case cudaLaunchAttributePriority: break;
      case cudaLaunchAttributeCooperative: c.cooperative = attribute.val.cooperative != 0; break;
      case cudaLaunchAttributeProgrammaticStreamSerialization:
        c.dependent = attribute.val.programmaticStreamSerializationAllowed != 0;
        break;
      case cudaLaunchAttributeClusterDimension:
        c.cluster[0] = attribute.val.clusterDim.x;
        c.cluster[1] = attribute.val.clusterDim.y;
        c.cluster[2] = attribute.val.clusterDim.z;
        break;
      case cudaLaunchAttributeClusterSchedulingPolicyPreference:
        c.scheduling = (int)attribute.val.clusterSchedulingPolicyPreference;
        break;
      case cudaLaunchAttributeAccessPolicyWindow:
        violation("a launch attribute that keeps data in the L2 cache");
        break;
      case cudaLaunchAttributeProgrammaticEvent:
      case cudaLaunchAttributeLaunchCompletionEvent:
        violation("a launch attribute that records an event");
        break;
      default: violation("launch attribute " + std::to_string((int)attribute.id)); break;
    }
  }
  return launch(f, c, a, config->stream);
}

// --- memory ---------------------------------------------------------------------------------------
// Each block has a mapping of its own with unmapped neighbours, and lies at its begin or its end in turn.
cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  check_stream(stream, "cudaMallocAsync");
  *pointer = nullptr;
  if (!bytes) return cudaSuccess;
  uint64_t span = (bytes + kPage - 1) / kPage * kPage;
  if (!next_scratch) next_scratch = request.scratch;
  if (bytes > request.device_memory || next_scratch + span + kPage > request.scratch + kScratch)
    return failed(cudaErrorMemoryAllocation, "cudaMallocAsync: out of memory");
  bool at_end = (allocated++ % 2 == 0) == request.scratch_at_end;
  uint64_t address = next_scratch + (at_end ? (span - bytes) / 256 * 256 : 0);
  next_scratch += span + kPage;
  scratch[address] = bytes;
  *pointer = (void*)(uintptr_t)address;
  put("alloc " + std::to_string(address) + " " + std::to_string(bytes));
  return cudaSuccess;
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  check_stream(stream, "cudaFreeAsync");
  if (!pointer) return cudaSuccess;
  if (!scratch.erase((uint64_t)(uintptr_t)pointer)) {
    violation("cudaFreeAsync of memory that cudaMallocAsync did not give");
    return failed(cudaErrorInvalidValue, "cudaFreeAsync: not from cudaMallocAsync");
  }
  put("free " + std::to_string((uint64_t)(uintptr_t)pointer));
  return cudaSuccess;
}
cudaError_t cudaMemset2DAsync(void* pointer, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream) {
  check_stream(stream, "[memset]");
  if (!on_device(pointer)) return failed(cudaErrorInvalidValue, "[memset]: not of device memory");
  if (!width || !height) return cudaSuccess;
  std::ostringstream line;
  line << "fill " << (uint64_t)(uintptr_t)pointer << ' ' << pitch << ' ' << (value & 255) << ' ' << width << ' ' << height;
  put(line.str());
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* pointer, int value, size_t bytes, cudaStream_t stream) {
  return cudaMemset2DAsync(pointer, bytes, value, bytes, 1, stream);
}
cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  return copied(target, bytes, source, bytes, bytes, 1, stream);
}
cudaError_t cudaMemcpy2DAsync(void* target, size_t tp, const void* source, size_t sp, size_t width, size_t height,
                              cudaMemcpyKind, cudaStream_t stream) {
  return copied(target, tp, source, sp, width, height, stream);
}
cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  auto name = global_names.find(symbol);
  auto global = name == global_names.end() ? request.globals.end() : request.globals.find(name->second);
  if (global == request.globals.end()) return failed(cudaErrorInvalidSymbol, "unknown symbol");
  *pointer = (void*)(uintptr_t)global->second.address;
  return cudaSuccess;
}
cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* source, size_t bytes, size_t offset, cudaMemcpyKind,
                                    cudaStream_t stream) {
  void* pointer = nullptr;
  if (cudaGetSymbolAddress(&pointer, symbol) != cudaSuccess) return last_error;
  return copied((char*)pointer + offset, bytes, source, bytes, bytes, 1, stream);
}

// --- questions ------------------------------------------------------------------------------------
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute which, int value) {
  std::string name;
  Kernel* kernel = kernel_of(function, &name);
  if (!kernel) return failed(cudaErrorInvalidDeviceFunction, "cudaFuncSetAttribute: no kernel of this file");
  if (which == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    if (value < 0 || value > attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, 48 << 10) - kernel->static_shared)
      return failed(cudaErrorInvalidValue, name + ": cudaFuncSetAttribute: more shared memory than a block may have");
    kernel->dynamic_limit = value;
  }
  put("attribute " + name + " " + std::to_string((int)which) + " " + std::to_string(value));
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, const void* function) {
  std::string name;
  Kernel* kernel = kernel_of(function, &name);
  memset(a, 0, sizeof *a);
  if (!kernel) return failed(cudaErrorInvalidDeviceFunction, "cudaFuncGetAttributes: no kernel of this file");
  a->sharedSizeBytes = (size_t)kernel->static_shared;
  a->constSizeBytes = (size_t)kernel->constant_bytes;
  a->localSizeBytes = (size_t)kernel->local_bytes;
  a->maxThreadsPerBlock = kernel->max_threads;
  a->numRegs = kernel->registers;
  a->ptxVersion = a->binaryVersion =
      10 * attribute(cudaDevAttrComputeCapabilityMajor, 9) + attribute(cudaDevAttrComputeCapabilityMinor, 0);
  a->maxDynamicSharedSizeBytes = kernel->dynamic_limit;
  a->preferredShmemCarveout = -1;
  return cudaSuccess;
}
cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaGetDevice(int* device) { *device = 0; return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) { *count = 1; return cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
  if (!request.attributes.count((int)which))
    return failed(cudaErrorNotSupported, "cudaDeviceGetAttribute: attribute " + std::to_string((int)which) + " is not known");
  *value = attribute(which, 0);
  return cudaSuccess;
}
#if CUDART_VERSION >= 13000
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
#else
#undef cudaGetDeviceProperties
cudaError_t cudaGetDeviceProperties_v2(cudaDeviceProp* p, int) {
#endif
  fill_properties(p);
  return cudaSuccess;
}
// What is free is another number in every recording: work must not depend on what else a GPU holds.
cudaError_t cudaMemGetInfo(size_t* spare, size_t* all) {
  const uint64_t pages = request.device_memory / 4096;
  const uint64_t drawn = (request.scratch ^ request.stream ^ (uint64_t)request.filling << 56) * 0x9e3779b97f4a7c15ull >> 32;
  *all = (size_t)request.device_memory;
  *spare = (size_t)((pages / 64 + drawn % (pages - pages / 64 + 1)) * 4096);
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int threads, size_t shared) {
  std::string name;
  if (!kernel_of(function, &name)) return failed(cudaErrorInvalidDeviceFunction, "occupancy: no kernel of this file");
  *blocks = (int)fact("blocks " + name + " " + std::to_string(threads) + " " + std::to_string(shared));
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* f, int threads, size_t shared,
                                                                   unsigned) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, f, threads, shared);
}
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* function, int blocks, int threads) {
  std::string name;
  if (!kernel_of(function, &name)) return failed(cudaErrorInvalidDeviceFunction, "occupancy: no kernel of this file");
  *bytes = (size_t)fact("shared " + name + " " + std::to_string(threads) + " " + std::to_string(blocks));
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* function, const cudaLaunchConfig_t* config) {
  std::string name;
  if (!kernel_of(function, &name)) return failed(cudaErrorInvalidDeviceFunction, "occupancy: no kernel of this file");
  uint64_t size = 1;
  for (unsigned i = 0; i < config->numAttrs; ++i)
    if (config->attrs[i].id == cudaLaunchAttributeClusterDimension) {
      const auto& d = config->attrs[i].val.clusterDim;
      size = (uint64_t)d.x * d.y * d.z;
    }
  *clusters = (int)fact("clusters " + name + " " + shape_of(config) + " " + std::to_string(size));
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void* function, const cudaLaunchConfig_t* config) {
  std::string name;
  if (!kernel_of(function, &name)) return failed(cudaErrorInvalidDeviceFunction, "occupancy: no kernel of this file");
  *size = (int)fact("cluster_size " + name + " " + shape_of(config));
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { cudaError_t error = last_error; last_error = cudaSuccess; return error; }
cudaError_t cudaPeekAtLastError() { return last_error; }
// The texts are not the runtime's own, so nobody may go by them: they are there for messages about errors that happened.
const char* cudaGetErrorString(cudaError_t error) {
  check_happened(error);
  return error == cudaSuccess ? "no error" : "a CUDA call failed";
}
const char* cudaGetErrorName(cudaError_t error) {
  check_happened(error);
  return error == cudaSuccess ? "cudaSuccess" : "cudaError";
}
// Nothing has run yet, so there is nothing to wait for.
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { check_stream(stream, "cudaStreamSynchronize"); return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  if (rank < 1 || rank > 5) return CUDA_ERROR_INVALID_VALUE;
  std::ostringstream text;
  text << "tiled " << (int)type << ' ' << rank << ' ' << (uint64_t)(uintptr_t)address << ' ' << (int)interleave << ' '
       << (int)swizzle << ' ' << (int)promotion << ' ' << (int)fill << joined(dims, rank) << joined(strides, rank - 1)
       << joined(box, rank) << joined(steps, rank);
  return encoded(map, text.str());
}
CUresult cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                 const cuuint64_t* dims, const cuuint64_t* strides, const int* lower, const int* upper,
                                 cuuint32_t channels, cuuint32_t pixels, const cuuint32_t* steps,
                                 CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                 CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  if (rank < 3 || rank > 5) return CUDA_ERROR_INVALID_VALUE;
  std::ostringstream text;
  text << "im2col " << (int)type << ' ' << rank << ' ' << (uint64_t)(uintptr_t)address << ' ' << (int)interleave << ' '
       << (int)swizzle << ' ' << (int)promotion << ' ' << (int)fill << joined(dims, rank) << joined(strides, rank - 1)
       << joined(lower, rank - 2) << joined(upper, rank - 2) << ' ' << channels << ' ' << pixels << joined(steps, rank);
  return encoded(map, text.str());
}

}  // extern "C"
