// The launcher's memory: physical memory of the judge, or scratch memory, behind addresses of one window. Whatever lies
// beside a mapping is not mapped, so a stray access ends the process's context, and nothing else.
#include <unistd.h>

#include <map>

#include "launcher.h"
#include "recording.h"

namespace {

struct Slot { CUmemGenericAllocationHandle memory; size_t bytes; };
std::vector<Slot> slots;
std::multimap<size_t, CUmemGenericAllocationHandle> spare;   // scratch memory that no list uses

std::string map_at(CUmemGenericAllocationHandle memory, uint64_t at, size_t bytes, bool writable, std::vector<Mapping>* here) {
  if (CUresult error = driver().cuMemMap(at, bytes, 0, memory, 0)) return name_of(error);
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = writable ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
  here->push_back({at, bytes, memory});
  CUresult error = driver().cuMemSetAccess(at, bytes, &access, 1);
  return error ? name_of(error) : "";
}

}  // namespace

const Driver& driver() {
  static const Driver* only = [] {
    auto* d = new Driver;
    cudaDriverEntryPointQueryResult found;
#define X(name) cudaGetDriverEntryPointByVersion(#name, (void**)&d->name, CUDART_VERSION, cudaEnableDefault, &found);
    DRIVER_FUNCTIONS(X)
#undef X
    return d;
  }();
  return *only;
}

std::string name_of(CUresult error) {
  const char *name = "unknown error", *text = "";
  driver().cuGetErrorName(error, &name);
  driver().cuGetErrorString(error, &text);
  return std::string(name) + ", " + text;
}

std::string reserve_window(uint64_t begin, uint64_t bytes) {
  if (!driver().cuMemMap || !driver().cuMemAddressReserve) return "this driver cannot map memory at chosen addresses";
  CUdeviceptr at = 0;
  CUresult error = driver().cuMemAddressReserve(&at, bytes, 0, begin, 0);
  if (error) return "window: " + name_of(error);
  return at == begin ? "" : "window: the addresses are taken";
}

std::string take_slots(const std::vector<uint64_t>& sizes, std::deque<int>& descriptors) {
  for (const Slot& slot : slots) driver().cuMemRelease(slot.memory);
  slots.clear();
  for (uint64_t size : sizes) {
    if (descriptors.empty()) return "fewer descriptors than slots";
    int fd = descriptors.front();
    descriptors.pop_front();
    CUmemGenericAllocationHandle memory;
    CUresult error = driver().cuMemImportFromShareableHandle(&memory, (void*)(uintptr_t)fd,
                                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    close(fd);
    if (error) return name_of(error);
    slots.push_back({memory, size});
  }
  return "";
}

std::string map_slot(size_t slot, uint64_t at, bool writable, std::vector<Mapping>* here) {
  if (slot >= slots.size()) return "no such slot";
  return map_at(slots[slot].memory, at, slots[slot].bytes, writable, here);
}

void unmap(std::vector<Mapping>* here) {
  for (const Mapping& one : *here) driver().cuMemUnmap(one.address, one.bytes);
  here->clear();
}

std::string take_scratch(uint64_t address, uint64_t bytes, std::vector<Mapping>* here) {
  uint64_t begin = address / recording::kPage * recording::kPage;
  size_t span = (size_t)((address + bytes - begin + recording::kPage - 1) / recording::kPage * recording::kPage);
  CUmemGenericAllocationHandle memory;
  auto kept = spare.find(span);
  if (kept != spare.end()) {
    memory = kept->second;
    spare.erase(kept);
  } else {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUresult error = driver().cuMemCreate(&memory, span, &properties, 0);
    if (error) return "cudaMallocAsync: " + name_of(error);
  }
  return map_at(memory, begin, span, true, here);
}

void give_back(std::vector<Mapping>* here) {
  for (const Mapping& one : *here) {
    driver().cuMemUnmap(one.address, one.bytes);
    spare.insert({one.bytes, one.memory});
  }
  here->clear();
}
