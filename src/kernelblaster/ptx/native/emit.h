// How floating-point results reach registers.
#pragma once
#include "half.h"
#include "machine.h"

namespace ptx {

// dst = f(lane). All lanes are computed in a buffer, which cannot alias the sources, then blended. The
// barrier keeps the computation before whatever restores the rounding mode.
template <typename T, typename F>
inline void emit(Warp& w, T* out, F f) {
  alignas(64) T result[kLanes];
  for (int i = 0; i < kLanes; ++i) result[i] = f(i);
  asm volatile("" : "+m"(result) : : "memory");
  if (w.active == kAllLanes) {
    std::memcpy(out, result, sizeof result);
  } else {
    const uint32_t active = w.active;
    for (int i = 0; i < kLanes; ++i) out[i] = active >> i & 1 ? result[i] : out[i];
  }
}

}  // namespace ptx
