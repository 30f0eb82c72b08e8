// The heap of the device: malloc and free in kernels.
#pragma once
#include "machine.h"

namespace ptx {

constexpr uint64_t kHeapBytes = 8 << 20;   // what a GPU sets aside unless it is told otherwise

// What kernels hold of it. It outlives launches, as on a GPU.
struct Heap {
  std::mutex lock;
  uint64_t held = 0;                                        // bytes
  std::map<uint64_t, std::pair<uint64_t, std::unique_ptr<uint8_t[]>>> blocks;   // by address: bytes, and what holds them

  uint64_t take(Memory& memory, uint64_t bytes);            // 0: there is not so much left
  bool give_back(Memory& memory, uint64_t address);         // false: it was not taken from here
  void clear(Memory& memory);
};

}  // namespace ptx
