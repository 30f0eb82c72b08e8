// What bulk copies with and without tensor maps share: checks of what one lane is about to copy.
#pragma once
#include "mbarrier.h"

namespace ptx {

// Notes stores to this shared memory that copies do not see, for want of fence.proxy.async behind them.
void check_proxy(Warp& w, const SharedPlace& from, uint32_t bytes, int lane);
// Consecutive bytes of shared memory, checked.
uint8_t* bulk_shared(Warp& w, const SharedPlace& at, uint32_t bytes, bool store, int lane);
// Consecutive bytes of global memory, a multiple of `unit`, to which the address is aligned.
uint8_t* bulk_global(Warp& w, uint64_t address, uint32_t bytes, uint32_t unit, bool store, int lane);

bool bind_tensor_copy(const Parsed& p, Inst& inst);   // tensor_copy.cpp

}  // namespace ptx
