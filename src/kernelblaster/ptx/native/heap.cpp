#include "heap.h"

#include "access.h"
#include "frames.h"

namespace ptx {
namespace {

constexpr uint64_t kUnit = 16;    // blocks are aligned to it, and take whole ones

void allocate(Warp& w, const Inst& i) {
  each_lane(w.active, [&](int lane) {
    const uint64_t address = w.block->launch->heap->take(*w.block->launch->memory, call_argument(w, i, lane, 0));
    set_call_result(w, i, lane, address);
  });
}

void release(Warp& w, const Inst& i) {
  each_lane(w.active, [&](int lane) {
    const uint64_t address = call_argument(w, i, lane, 0);
    if (address && !w.block->launch->heap->give_back(*w.block->launch->memory, address))
      w.fault("invalid-address", text("free of 0x%llx, which malloc did not return or which was freed before", (unsigned long long)address), lane);
  });
}

}  // namespace

uint64_t Heap::take(Memory& memory, uint64_t bytes) {
  std::lock_guard<std::mutex> hold(lock);
  const uint64_t size = (std::max<uint64_t>(bytes, 1) + kUnit - 1) / kUnit * kUnit;
  if (size > kHeapBytes - held) return 0;
  std::unique_ptr<uint8_t[]> block(new uint8_t[size + kUnit]);
  const uint64_t address = ((uint64_t)(uintptr_t)block.get() + kUnit - 1) / kUnit * kUnit;
  memset(block.get(), 0xcd, size + kUnit);
  held += size;
  blocks[address] = {size, std::move(block)};
  memory.add(address, bytes, "heap", true);
  return address;
}

bool Heap::give_back(Memory& memory, uint64_t address) {
  std::lock_guard<std::mutex> hold(lock);
  auto found = blocks.find(address);
  if (found == blocks.end()) return false;
  memory.remove(address);
  held -= found->second.first;
  blocks.erase(found);
  return true;
}

void Heap::clear(Memory& memory) {
  while (!blocks.empty()) give_back(memory, blocks.begin()->first);
}

Handler heap_function(const std::string& name) { return name == "malloc" ? allocate : name == "free" ? release : nullptr; }

}  // namespace ptx
