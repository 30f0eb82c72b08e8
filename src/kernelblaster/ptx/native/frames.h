// Calls of device functions that were not inlined. Every function has registers of its own; a frame holds
// them for the lanes of a warp that are in this function at this depth. Parameters, results and local
// variables lie in the lane's local memory, where each depth has a piece of equal size.
#pragma once
#include "machine.h"

namespace ptx {

struct Frame {
  const Function* function = nullptr;
  Reg* registers = nullptr;
  int depth = 0;
  uint64_t local_start = 0;          // of this depth's piece of local memory
  Frame* caller[kLanes] = {nullptr};
  int back[kLanes] = {0};            // where each lane goes on in its caller
  std::vector<Reg> storage;          // empty for a kernel, whose registers belong to the block
};

inline void enter(Warp& w, Frame* frame) {
  w.frame = frame;
  w.function = frame->function;
  w.registers = frame->registers;
}

// Constants and addresses of symbols, as a function's registers need them before it starts.
void fill_registers(const Launch& launch, Frame& frame);

// What a pointer to a device function holds.
inline uint64_t address_of(const Function& f) { return (uint64_t)(uintptr_t)&f; }
// The function that a lane calls. Faults if a pointer is none that this call can be through.
const Function& callee_of(Warp& w, const Inst& inst, int lane);

// The frame that lanes enter when they call; their parameters are there. Faults if they are too deep.
Frame* call(Warp& w, const Inst& inst, const Function& callee, int pc, uint32_t lanes);
// Takes back the results of one lane that leaves `frame`.
void bring_results(Warp& w, const Frame& frame, int lane);

// After a text has been read: finds what calls call and how much local memory that needs.
void link(Module& module);

// The functions that the machine itself provides; null for others.
Handler provided(const std::string& name);
Handler heap_function(const std::string& name);   // of these, malloc and free
// The k-th argument of a call of such a function, as its caller left it in local memory; and what it returns.
uint64_t call_argument(Warp& w, const Inst& i, int lane, size_t k);
void set_call_result(Warp& w, const Inst& i, int lane, uint64_t value);

}  // namespace ptx
