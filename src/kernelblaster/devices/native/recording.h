// What the parts of the recorder share. The recorder runs a candidate's host code where there is no GPU: behind a
// stand-in of the CUDA runtime (stand_in.cpp), in a process that may do nothing but compute (sandbox.cpp). What comes
// out is a launch list, as text: an operation a line, in the order in which a stream would run them.
//
//   attribute KERNEL NUMBER VALUE                          cudaFuncSetAttribute
//   alloc ADDRESS BYTES / free ADDRESS                     scratch memory
//   tensormap INDEX KIND TYPE RANK ADDRESS ...             cuTensorMapEncode*: what it was asked for
//   launch KERNEL GX GY GZ BX BY BZ SHARED FLAGS CX CY CZ SCHEDULING HEX
//                                                          FLAGS: 1 cooperative, 2 dependent on the launch before;
//                                                          HEX: the parameter buffer, - where it is empty
//   fill ADDRESS PITCH VALUE WIDTH HEIGHT                  cudaMemset*Async
//   copy TARGET PITCH SOURCE PITCH WIDTH HEIGHT            cudaMemcpy*Async, device to device
//   upload TARGET HEX                                      cudaMemcpy*Async of bytes of the host
//   error TEXT / violation TEXT                            what a call returned, or what the contract forbids
//   ask QUESTION                                           a fact about the GPU that must be known to go on
//   end                                                    the host code returned
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace recording {

constexpr size_t kMostOperations = 20'000;
constexpr size_t kMostBytes = 24 << 20;             // of the list
constexpr uint64_t kPage = 2 << 20;                 // mappings of scratch memory begin at multiples of this
constexpr uint64_t kScratch = 1ull << 37;           // all of it, as in devices/window.py
constexpr uint64_t kMark[2] = {0x9d6f3c1ab5e27084, 0x5a0cf1e6d42b8397};  // begins a tensor map that is yet to be encoded

struct Kernel {
  int registers = 0, static_shared = 0, local_bytes = 0, constant_bytes = 0, max_threads = 1024;
  int dynamic_limit = 48 << 10;                     // cudaFuncAttributeMaxDynamicSharedMemorySize
  std::vector<std::pair<uint64_t, uint64_t>> parameters;  // offset and bytes of each
};
struct Global { uint64_t address = 0, bytes = 0; };

// What the candidate is told of its surroundings, from the judge's request.
struct Request {
  std::map<std::string, Kernel> kernels;
  std::map<std::string, Global> globals;
  std::map<int, int> attributes;                    // of the GPU, by cudaDeviceAttr
  std::map<std::string, int64_t> facts;             // answers to earlier questions
  std::string gpu_name;
  uint64_t device_memory = 0;
  uint64_t window = 0, window_bytes = 0;            // device addresses lie here, those of globals included
  uint64_t elsewhere = 0, elsewhere_bytes = 0;      // or here
  uint64_t scratch = 0;                             // where scratch memory begins
  bool scratch_at_end = false;                      // the first block lies at the end of its mapping, the next at the begin ...
  uint64_t stream = 0;
  int filling = 0;                                  // what malloc fills fresh memory with; 0: it is as it comes
  // How often to call, and with which arguments, one after the other; the last call is recorded.
  std::vector<std::pair<size_t, std::vector<uint64_t>>> calls;
};
extern Request request;

// One more line of the list. Past the limits the process ends.
void put(const std::string& line);
// The list so far, to whoever reads the recording.
void hand_over();
// Forgets what an earlier call in this process put into the list. Only that of the `last` call is handed over: in
// others, bytes of the host need not be written down.
void begin_call(bool last);
// A number that stands for all that host code keeps between its calls; `function` is one of its own.
uint64_t kept_by(const void* function);

}  // namespace recording

// Takes away from this process what host code has no business with, in two steps: before the candidate is loaded,
// all but loading it from `folder`, which becomes the root where possible; then all but computing and writing to
// descriptors that are open. Each returns what could not be put in place, in words; empty if all is. The memory of one that
// is `stepped` may be read by the process that steps it.
std::string confine(const char* folder, uint64_t memory_bytes, int seconds, bool stepped);
std::string close_sandbox();
