// What the parts of the worker share. The worker is the process in which candidates run: it loads
// one candidate, calls it on memory that the judge owns, and reports what happened. It decides
// nothing: outputs are compared, and times are judged, by the process that started it.
#pragma once
#include <cuda_runtime_api.h>
#include <vector_types.h>

#include <cstdint>
#include <string>
#include <vector>

// The real CUDA runtime, found at start. Candidates reach it only through the shims.
void* real_symbol(const char* name);
template <typename Function>
Function* real(const char* name, Function*) {
  return reinterpret_cast<Function*>(real_symbol(name));
}
#define REAL(function) (real(#function, static_cast<decltype(&function)>(nullptr)))

// One piece of work that the candidate put on the GPU.
struct Work {
  std::string name;
  uint32_t grid[3], block[3];
  size_t shared_bytes;
  cudaEvent_t begin, end;  // set only while accounting
};

// What the shims saw during one call of the candidate.
struct Ledger {
  cudaStream_t stream = nullptr;       // the only stream that may be used
  bool accounting = false;             // time every piece of work on its own
  int scratch_poison = -1;             // byte for fresh scratch memory, or -1 to leave it
  std::vector<Work> work;
  std::vector<std::string> violations;
  std::string first_error;
  size_t live_scratch_bytes = 0;       // over all calls: not given back yet
  size_t live_scratch_blocks = 0;

  void begin_call();
  void violation(const std::string& what);
  void note_error(cudaError_t error, const char* where);
};
Ledger& ledger();

// Reads `count` vectors so that nothing else is left in the L2 cache.
void read_through(const uint4* data, size_t count, uint32_t* sink, cudaStream_t stream);

// Takes away from this process what a candidate has no business with. `limit_bytes` bounds further
// host memory; `threads` leaves the process the right to start threads. Returns what could not be put
// in place, in words; empty if all is.
std::string close_sandbox(size_t limit_bytes, bool threads = false);
void leave_network();
