#include "frames.h"

#include <algorithm>
#include <stdexcept>

#include "access.h"

namespace ptx {
namespace {

void broadcast(Reg* registers, int slot, uint64_t bits) {
  for (int lane = 0; lane < kLanes; ++lane) registers[slot].u32[lane] = (uint32_t)bits;
  for (int lane = 0; lane < kLanes; ++lane) registers[slot + 1].u64[lane] = bits;
}

// Shared memory is laid out by the kernel, local memory by the function.
uint64_t symbol_address(const Launch& launch, const Frame& frame, const std::string& name) {
  auto own = frame.function->variables.find(name);
  if (own != frame.function->variables.end() && own->second.space != Space::Shared)
    return frame.local_start + own->second.address;
  auto shared = launch.function->variables.find(name);
  if (shared != launch.function->variables.end()) return kReservedShared + shared->second.address;
  auto global = launch.module->globals.find(name);
  auto device = launch.module->functions.find(name);
  if (global == launch.module->globals.end() && device != launch.module->functions.end()) return address_of(*device->second);
  if (global == launch.module->globals.end()) throw std::runtime_error("unknown symbol " + name);
  return global->second.address;
}

Frame* frame_for(Warp& w, const Function& function, int depth) {
  for (auto& frame : w.frames)
    if (frame->function == &function && frame->depth == depth) return frame.get();
  const Function& kernel = *w.block->launch->function;
  auto frame = std::make_shared<Frame>();
  frame->function = &function;
  frame->depth = depth;
  frame->local_start = kernel.local_bytes + (uint64_t)(depth - 1) * kernel.frame_bytes;
  frame->storage.resize((size_t)function.slots);
  frame->registers = frame->storage.data();
  std::copy(w.frames[0]->registers, w.frames[0]->registers + SpecialCount, frame->registers);
  fill_registers(*w.block->launch, *frame);
  w.frames.push_back(std::move(frame));
  return w.frames.back().get();
}

// Data and whether it was written.
void move_local(Warp& w, int lane, uint64_t from, uint64_t to, uint64_t bytes) {
  uint64_t start = (uint64_t)lane * w.block->launch->function->stack_bytes();
  memcpy(w.local + start + to, w.local + start + from, bytes);
  memcpy(w.local_written + start + to, w.local_written + start + from, bytes);
}

}  // namespace

void fill_registers(const Launch& launch, Frame& frame) {
  for (const auto& [slot, bits] : frame.function->constants) broadcast(frame.registers, slot, bits);
  for (const auto& [slot, name] : frame.function->symbols)
    broadcast(frame.registers, slot, symbol_address(launch, frame, name));
}

const Function& callee_of(Warp& w, const Inst& inst, int lane) {
  const Call& made = w.function->calls[(size_t)inst.imm[0]];
  if (made.pointer < 0) return *made.function;
  const uint64_t pointer = w.reg(made.pointer).u64[lane];
  for (const auto& target : made.targets)
    if (address_of(*target.first) == pointer) return *target.first;
  w.fault("invalid-address", text("a call through 0x%llx, which is no function with these parameters",
                                  (unsigned long long)pointer), lane);
}

Frame* call(Warp& w, const Inst& inst, const Function& callee, int pc, uint32_t lanes) {
  Frame* caller = w.frame;
  const Function& kernel = *w.block->launch->function;
  const Call& made = caller->function->calls[(size_t)inst.imm[0]];
  if (caller->depth >= kernel.most_calls)
    w.fault("stack-overflow", text("calls of %s are more than %d deep", callee.name.c_str(), kernel.most_calls),
            __builtin_ctz(lanes));
  Frame* frame = frame_for(w, callee, caller->depth + 1);
  const auto& arguments = made.pointer < 0 ? made.arguments : made.targets.at(&callee).arguments;
  each_lane(lanes, [&](int lane) {
    frame->caller[lane] = caller;
    frame->back[lane] = pc + 1;
    uint64_t start = (uint64_t)lane * kernel.stack_bytes() + frame->local_start;
    memset(w.local_written + start, 0, callee.local_bytes);
    for (const Call::Copy& c : arguments)
      move_local(w, lane, caller->local_start + c.outside, frame->local_start + c.inside, c.bytes);
  });
  return frame;
}

void bring_results(Warp& w, const Frame& frame, int lane) {
  const Frame& caller = *frame.caller[lane];
  const Inst& inst = caller.function->code[frame.back[lane] - 1];
  const Call& made = caller.function->calls[(size_t)inst.imm[0]];
  for (const Call::Copy& c : made.pointer < 0 ? made.results : made.targets.at(frame.function).results)
    move_local(w, lane, frame.local_start + c.inside, caller.local_start + c.outside, c.bytes);
}

}  // namespace ptx
