// The worker of the emulated device: the same candidate, the same commands as worker.cpp, but the CUDA
// runtime that its shims offer is the PTX machine. It tells no time, but counts what a model of time needs.
//
//   arena PATH BYTES        the first line: map the judge's memory, a file; the answer is "ready"
//   gpu SMS THREADS SHARED MAJOR MINOR    what the runtime says of the GPU: per multiprocessor
//   load SO PTX             load a candidate: its host code and its device code
//   tensors N OFFSET BYTES NAME ...    what the candidate may touch in the arena from now on
//   call POISON ACCOUNT N A1 ... AN    as in worker.cpp; the answer also has findings and counts
//   repeat OFFSET BYTES PERIOD         let these bytes of the arena show their first PERIOD over and over
//   plan N A1 ... AN                   call it, but only list what it launches
//   count M V1 ... V11 ... N A1 ... AN call it; of launch k, run some blocks for GPU model k of M, record costs
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "emulated.h"
#include "protocol.h"
#include "worker.h"

using namespace emulated;

namespace {

void (*candidate)(void* const*, cudaStream_t);
std::vector<uint64_t> tensors;

bool map_arena(std::istringstream& words) {
  std::string command, path;
  words >> command >> path >> arena_bytes;
  int file = open(path.c_str(), O_RDWR);
  if (command != "arena" || file < 0) return false;
  void* mapped = mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  arena = (char*)mapped;
  return mapped != MAP_FAILED;
}

void do_gpu(std::istringstream& words) {
  words >> gpu.multiprocessors >> gpu.threads >> gpu.shared_bytes >> gpu.major >> gpu.minor;
  answer("\"ok\": true");
}

void do_load(std::istringstream& words) {
  std::string object, device_code;
  words >> object >> device_code;
  std::ifstream file(device_code);
  std::stringstream text;
  text << file.rdbuf();
  description = ptx_load(machine, text.str().data(), text.str().size(), &module);
  if (!module) return fail("load: " + description);
  void* library = dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return fail(std::string("load: ") + dlerror());
  candidate = (void (*)(void* const*, cudaStream_t))dlsym(library, "kernelblaster_call");
  if (!candidate) return fail(std::string("load: ") + dlerror());
  answer("\"ok\": true");
}

void do_tensors(std::istringstream& words) {
  for (uint64_t start : tensors) ptx_memory_remove(machine, start);
  tensors.clear();
  size_t count = 0;
  words >> count;
  for (size_t i = 0; i < count; ++i) {
    uint64_t offset = 0, bytes = 0;
    std::string name;
    words >> offset >> bytes >> name;
    if (!bytes || offset + bytes > arena_bytes) continue;
    uint64_t start = (uint64_t)(uintptr_t)(arena + offset);
    ptx_memory_add(machine, start, bytes, name.c_str(), 0);
    tensors.push_back(start);
  }
  answer("\"ok\": true");
}

void do_repeat(std::istringstream& words) {
  size_t offset = 0, bytes = 0, period = 0, page = (size_t)sysconf(_SC_PAGESIZE);
  words >> offset >> bytes >> period;
  size_t first = (offset + page - 1) / page * page, end = (offset + bytes) / page * page;
  if (!period || period % page || offset + bytes > arena_bytes) return fail("repeat: not a period");
  for (size_t at = first + period; at < end; at += period) {
    // A shared mapping whose old size is zero is not moved but mapped a second time.
    void* again = mremap(arena + first, 0, std::min(period, end - at), MREMAP_MAYMOVE | MREMAP_FIXED, arena + at);
    if (again == MAP_FAILED) return fail("repeat: the arena cannot be mapped again");
  }
  answer("\"ok\": true");
}

void run_candidate(std::istringstream& words);

void do_call(std::istringstream& words) {
  int accounting = 0;
  words >> poison >> accounting;
  mode = Execute;
  ptx_model(machine, nullptr, 0);
  run_candidate(words);
}

void do_plan(std::istringstream& words) {
  mode = Plan;
  run_candidate(words);
}

void do_count(std::istringstream& words) {
  size_t count = 0;
  words >> count;
  models.assign(count * kModelValues, 0);
  for (double& value : models) words >> value;
  mode = Count;
  run_candidate(words);
}

void run_candidate(std::istringstream& words) {
  Arguments arguments(words, arena);
  begin_call();
  candidate(arguments.pointers.data(), given);
  size_t live = 0;
  std::string leaks;
  for (auto& [pointer, held] : scratch) {
    live += held.bytes;
    leaks += (leaks.empty() ? "" : ", ") + quoted("leak: " + std::to_string(held.bytes) + " bytes of cudaMallocAsync number " +
                                                  std::to_string(held.number) + " of the call are still held");
  }
  std::ostringstream out;
  out << "\"error\": " << quoted(error_text) << ", \"live_bytes\": " << live << ", \"leaks\": [" << leaks
      << "], \"violations\": [";
  for (size_t i = 0; i < violations.size(); ++i) out << (i ? ", " : "") << quoted(violations[i]);
  out << "], \"work\": [" << launches << "]";
  answer(out.str());
}

}  // namespace

// What the shared sandbox code needs from a worker; the real runtime is never looked up here.
void* real_symbol(const char*) { abort(); }

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (argc < 3) return 2;
  replies = fdopen(dup(STDOUT_FILENO), "w");
  int nowhere = open("/dev/null", O_RDWR);
  dup2(nowhere, STDOUT_FILENO);
  leave_network();
  machine = ptx_machine_new();
  threads = std::max(1u, std::thread::hardware_concurrency());
  char* line = nullptr;
  size_t capacity = 0;
  // The arena comes first, before the sandbox closes: it is the one file that is opened for writing.
  if (getline(&line, &capacity, stdin) <= 0) return 2;
  std::istringstream first(line);
  if (!map_arena(first)) {
    fail("the arena cannot be mapped");
    return 4;
  }
  std::string gaps = close_sandbox(strtoull(argv[2], nullptr, 10), true);
  answer("\"ready\": true, \"flush_us\": 0, \"sandbox_gaps\": " + quoted(gaps));
  while (getline(&line, &capacity, stdin) > 0) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "gpu") do_gpu(words);
    else if (command == "load") do_load(words);
    else if (command == "tensors") do_tensors(words);
    else if (command == "call") do_call(words);
    else if (command == "repeat") do_repeat(words);
    else if (command == "plan") do_plan(words);
    else if (command == "count") do_count(words);
    else if (!command.empty()) fail("unknown command " + command);
  }
  _Exit(0);
}
