// The worker's main loop: reads commands, one a line, and answers each with one line of JSON.
//
//   arena HANDLE BYTES      map the judge's memory (an interprocess handle in hexadecimal)
//   copy                    work on a private copy of the arena from now on (for profilers)
//   load PATH               load a candidate
//   call POISON ACCOUNT N A1 ... AN    call it; scratch filled with byte POISON (-1: not); with
//                                      ACCOUNT 1, every piece of work is timed on its own
//   time N A1 ... AN        cold L2, then call it between two events
//   profile N A1 ... AN     one call to warm up, one between profiler marks
//   unload                  forget the candidate (only under profilers, which are not sandboxed)
// An argument is p<offset into the arena>, i<whole number>, d<number> or b<0 or 1>.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "protocol.h"
#include "worker.h"

extern "C" cudaError_t cudaProfilerStart();
extern "C" cudaError_t cudaProfilerStop();

namespace {

using Call = void(void* const*, cudaStream_t);

cudaStream_t stream;
cudaEvent_t flush_begin, call_begin, call_end;
char* arena;
size_t arena_bytes;
uint4* flush_data;
size_t flush_bytes;
uint32_t* sink;
float usual_flush_us;  // measured before any candidate is here
Call* candidate;
void* library;

double now_us() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

bool check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return true;
  fail(std::string(what) + ": " + REAL(cudaGetErrorString)(error));
  return false;
}

void flush_cache() {
  for (int pass = 0; pass < 2; ++pass) {
    size_t count = flush_bytes / sizeof(uint4);
    read_through(flush_data, count, sink, stream);
  }
}

float elapsed_us(cudaEvent_t begin, cudaEvent_t end) {
  float ms = 0;
  REAL(cudaEventElapsedTime)(&ms, begin, end);
  return ms * 1000;
}

// What the shims saw, as JSON fields.
std::string account() {
  Ledger& book = ledger();
  std::ostringstream out;
  out << "\"error\": " << quoted(book.first_error) << ", \"live_bytes\": " << book.live_scratch_bytes
      << ", \"live_blocks\": " << book.live_scratch_blocks << ", \"violations\": [";
  for (size_t i = 0; i < book.violations.size(); ++i) out << (i ? ", " : "") << quoted(book.violations[i]);
  out << "], \"count\": " << book.work.size() << ", \"work\": [";
  for (size_t i = 0; i < book.work.size() && i < 256; ++i) {
    const Work& w = book.work[i];
    out << (i ? ", " : "") << "{\"name\": " << quoted(w.name) << ", \"grid\": [" << w.grid[0] << ", " << w.grid[1]
        << ", " << w.grid[2] << "], \"block\": [" << w.block[0] << ", " << w.block[1] << ", " << w.block[2]
        << "], \"shared_bytes\": " << w.shared_bytes;
    if (w.begin) out << ", \"us\": " << elapsed_us(w.begin, w.end);
    out << "}";
  }
  out << "]";
  if (book.accounting)
    for (auto& w : book.work) {
      REAL(cudaEventDestroy)(w.begin);
      REAL(cudaEventDestroy)(w.end);
    }
  return out.str();
}

// Calls the candidate and waits for everything on the device.
void run(Arguments& arguments) {
  candidate(arguments.pointers.data(), stream);
  ledger().note_error(REAL(cudaGetLastError)(), "after the call");
  ledger().note_error(REAL(cudaStreamSynchronize)(stream), "while running");
  ledger().note_error(REAL(cudaDeviceSynchronize)(), "while running");
}

void do_arena(std::istringstream& words) {
  std::string handle_text;
  words >> handle_text >> arena_bytes;
  cudaIpcMemHandle_t handle;
  for (size_t i = 0; i < sizeof(handle) && 2 * i + 1 < handle_text.size(); ++i)
    ((unsigned char*)&handle)[i] = (unsigned char)strtol(handle_text.substr(2 * i, 2).c_str(), nullptr, 16);
  if (arena) {
    REAL(cudaIpcCloseMemHandle)(arena);
    arena = nullptr;
  }
  if (check(REAL(cudaIpcOpenMemHandle)((void**)&arena, handle, cudaIpcMemLazyEnablePeerAccess), "arena"))
    answer("\"ok\": true");
}

void do_copy() {
  char* own = nullptr;
  if (!check(REAL(cudaMalloc)((void**)&own, arena_bytes), "copy")) return;
  if (!check(REAL(cudaMemcpy)(own, arena, arena_bytes, cudaMemcpyDeviceToDevice), "copy")) return;
  REAL(cudaIpcCloseMemHandle)(arena);
  arena = own;
  answer("\"ok\": true");
}

void do_load(std::istringstream& words) {
  std::string path;
  words >> path;
  library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return fail(std::string("load: ") + dlerror());
  candidate = (Call*)dlsym(library, "kernelblaster_call");
  if (!candidate) return fail(std::string("load: ") + dlerror());
  answer("\"ok\": true");
}

void do_call(std::istringstream& words) {
  int accounting = 0;
  Ledger& book = ledger();
  words >> book.scratch_poison >> accounting;
  Arguments arguments(words, arena);
  book.begin_call();
  book.accounting = accounting;
  run(arguments);
  answer(account());
  book.accounting = false;
}

void do_time(std::istringstream& words) {
  Arguments arguments(words, arena);
  Ledger& book = ledger();
  book.scratch_poison = -1;
  REAL(cudaCtxResetPersistingL2Cache)();
  REAL(cudaDeviceSynchronize)();
  double start = now_us();
  REAL(cudaEventRecord)(flush_begin, stream);
  flush_cache();
  book.begin_call();
  REAL(cudaEventRecord)(call_begin, stream);
  candidate(arguments.pointers.data(), stream);
  REAL(cudaEventRecord)(call_end, stream);
  book.note_error(REAL(cudaGetLastError)(), "after the call");
  book.note_error(REAL(cudaStreamSynchronize)(stream), "while running");
  book.note_error(REAL(cudaDeviceSynchronize)(), "while running");
  double wall = now_us() - start;
  std::ostringstream out;
  out << "\"event_us\": " << elapsed_us(call_begin, call_end)
      << ", \"span_us\": " << elapsed_us(flush_begin, call_end) << ", \"wall_us\": " << wall << ", ";
  answer(out.str() + account());
}

void do_profile(std::istringstream& words) {
  Arguments arguments(words, arena);
  ledger().scratch_poison = -1;
  run(arguments);
  ledger().begin_call();
  REAL(cudaProfilerStart)();
  run(arguments);
  REAL(cudaProfilerStop)();
  answer(account());
}

bool prepare(size_t bytes) {
  flush_bytes = bytes;
  if (!check(REAL(cudaSetDevice)(0), "device")) return false;
  if (!check(REAL(cudaStreamCreateWithFlags)(&stream, cudaStreamNonBlocking), "stream")) return false;
  cudaMemPool_t pool;
  uint64_t keep = UINT64_MAX;
  if (!check(REAL(cudaDeviceGetDefaultMemPool)(&pool, 0), "memory pool")) return false;
  REAL(cudaMemPoolSetAttribute)(pool, cudaMemPoolAttrReleaseThreshold, &keep);
  REAL(cudaEventCreate)(&flush_begin);
  REAL(cudaEventCreate)(&call_begin);
  REAL(cudaEventCreate)(&call_end);
  if (!check(REAL(cudaMalloc)((void**)&flush_data, flush_bytes), "flush memory")) return false;
  if (!check(REAL(cudaMalloc)((void**)&sink, 4), "flush memory")) return false;
  REAL(cudaMemsetAsync)(flush_data, 0, flush_bytes, stream);
  flush_cache();
  void* warm = nullptr;
  REAL(cudaMallocAsync)(&warm, 1 << 20, stream);
  REAL(cudaFreeAsync)(warm, stream);
  if (!check(REAL(cudaStreamSynchronize)(stream), "warm-up")) return false;
  REAL(cudaEventRecord)(flush_begin, stream);
  flush_cache();
  REAL(cudaEventRecord)(call_begin, stream);
  if (!check(REAL(cudaStreamSynchronize)(stream), "warm-up")) return false;
  usual_flush_us = elapsed_us(flush_begin, call_begin);
  ledger().stream = stream;
  ledger().begin_call();
  return true;
}

// The file appears when there is work. Nobody waits for it once its owner or its folder is gone.
FILE* appearing(const std::string& path, pid_t owner) {
  const std::string folder = path.substr(0, path.rfind('/'));
  FILE* found = nullptr;
  while (!(found = fopen(path.c_str(), "r"))) {
    if (kill(owner, 0) != 0 || access(folder.c_str(), F_OK) != 0) _Exit(0);
    usleep(1000);
  }
  return found;
}

}  // namespace

// worker FLUSH_BYTES HOST_BYTES [COMMANDS REPLIES OWNER]: under a profiler, files instead of pipes, and the
// process that writes the commands.
int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const char* commands_path = argc > 5 ? argv[3] : nullptr;
  FILE* commands = stdin;
  if (commands_path) {
    replies = fopen(argv[4], "w");
  } else {
    replies = fdopen(dup(STDOUT_FILENO), "w");
    int nowhere = open("/dev/null", O_RDWR);
    dup2(nowhere, STDOUT_FILENO);
    leave_network();
  }
  if (!replies || argc < 3) return 2;
  if (!prepare(strtoull(argv[1], nullptr, 10))) return 4;
  std::string gaps = commands_path ? "not sandboxed" : close_sandbox(strtoull(argv[2], nullptr, 10));
  answer("\"ready\": true, \"flush_us\": " + std::to_string(usual_flush_us) +
         ", \"sandbox_gaps\": " + quoted(gaps));

  if (commands_path) commands = appearing(commands_path, atoi(argv[5]));
  char* line = nullptr;
  size_t capacity = 0;
  while (getline(&line, &capacity, commands) > 0) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "arena") do_arena(words);
    else if (command == "copy") do_copy();
    else if (command == "load") do_load(words);
    else if (command == "call") do_call(words);
    else if (command == "time") do_time(words);
    else if (command == "profile") do_profile(words);
    else if (command == "unload") { dlclose(library); answer("\"ok\": true"); }
    else if (!command.empty()) fail("unknown command " + command);
  }
  _Exit(0);
}
