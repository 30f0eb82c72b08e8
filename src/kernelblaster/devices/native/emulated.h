// What the two halves of the emulating worker share: the commands that it takes (emulated.cpp) and the CUDA runtime
// that the candidate sees (stand_in.cpp).
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <cuda.h>
#include <cuda_runtime_api.h>

extern "C" {
struct Machine;
struct Loaded;
Machine* ptx_machine_new();
void ptx_memory_add(Machine*, uint64_t start, uint64_t bytes, const char* name, int tracked);
int ptx_memory_remove(Machine*, uint64_t start);
void ptx_memory_written(Machine*, uint64_t start, uint64_t bytes);
const char* ptx_load(Machine*, const char* text, uint64_t length, Loaded** handle);
void ptx_model(Machine*, const double* values, int count);
const char* ptx_launch(Machine*, Loaded*, const char* kernel, const uint32_t* grid, const uint32_t* block,
                       uint64_t dynamic_shared, const uint8_t* parameters, uint64_t parameter_bytes, uint64_t budget,
                       int threads);
}

namespace emulated {

constexpr size_t kModelValues = 11;

struct Kernel {
  std::string name;
  std::vector<std::pair<uint64_t, uint64_t>> parameters;  // offset and bytes of each
};
struct Scratch { size_t bytes; int number; };   // number: which cudaMallocAsync of the call it was
struct Gpu { int multiprocessors, threads, shared_bytes, major, minor; };
enum Mode { Execute, Plan, Count };

extern Machine* machine;
extern Loaded* module;
extern std::string description;          // of the module, by the machine
extern Gpu gpu;
extern char* arena;
extern size_t arena_bytes;
extern int threads;                      // of the machine
extern cudaStream_t given;

// What the next call is for, and what the last one did.
extern Mode mode;
extern std::vector<double> models;       // Count: kModelValues for each launch
extern int poison;
extern std::map<void*, Scratch> scratch; // that is held
extern std::string launches;             // reports, as JSON, comma-separated
extern std::string error_text;
extern std::vector<std::string> violations;

// Forgets the last call.
void begin_call();

}  // namespace emulated
