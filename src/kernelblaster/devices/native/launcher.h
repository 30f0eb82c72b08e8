// What the parts of the launcher share: the driver's functions, and memory that is mapped where the judge says.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <vector_types.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "operations.h"

// The driver's functions that the CUDA runtime has no name for, found at start.
struct Driver {
#define DRIVER_FUNCTIONS(X)                                                                                     \
  X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) X(cuModuleGetGlobal) X(cuLaunchKernelEx)          \
  X(cuFuncSetAttribute) X(cuMemsetD8Async) X(cuMemsetD2D8Async) X(cuMemcpyDtoDAsync) X(cuMemcpyHtoDAsync)        \
  X(cuMemcpyDtoH) X(cuCtxResetPersistingL2Cache) X(cuMemAddressReserve) X(cuMemCreate) X(cuMemMap)               \
  X(cuMemSetAccess) X(cuMemUnmap) X(cuMemRelease) X(cuMemImportFromShareableHandle) X(cuGetErrorName)            \
  X(cuGetErrorString) X(cuDeviceGetAttribute) X(cuTensorMapEncodeTiled) X(cuTensorMapEncodeIm2col)               \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor) X(cuOccupancyAvailableDynamicSMemPerBlock)                      \
  X(cuOccupancyMaxActiveClusters) X(cuOccupancyMaxPotentialClusterSize)
#define X(name) decltype(&::name) name = nullptr;
  DRIVER_FUNCTIONS(X)
#undef X
};
const Driver& driver();
std::string name_of(CUresult error);

// A piece of the window that physical memory lies behind.
struct Mapping {
  CUdeviceptr address;
  size_t bytes;
  CUmemGenericAllocationHandle memory;
};

// All addresses that a candidate is given lie in one reserved window, at the place that the judge chose.
std::string reserve_window(uint64_t begin, uint64_t bytes);
// The judge's memory, from descriptors; then any of it at an address, read-only unless `writable`.
std::string take_slots(const std::vector<uint64_t>& sizes, std::deque<int>& descriptors);
std::string map_slot(size_t slot, uint64_t at, bool writable, std::vector<Mapping>* here);
void unmap(std::vector<Mapping>* here);
// Scratch memory behind the whole pages around [address, address + bytes), kept for other lists when it is given back.
std::string take_scratch(uint64_t address, uint64_t bytes, std::vector<Mapping>* here);
void give_back(std::vector<Mapping>* here);

CUresult encode(const Operation& o, CUtensorMap* map);
CUresult occupancy(const std::string& question, CUfunction function, int threads, size_t other, int cluster, int64_t* value);
// The GPU's name, memory and attributes, as JSON fields.
std::string description();

// Reads `count` vectors so that nothing else is left in the L2 cache.
void read_through(const uint4* data, size_t count, uint32_t* sink, cudaStream_t stream);
