// The launcher: the player on a real GPU, and the only process whose clocks count. Nothing of a candidate's host code is
// here: it loads the candidate's device code and replays launch lists at the addresses that they were recorded for.
//
//   slots N BYTES...            N descriptors came along: the judge's memory, a slot for each tensor
//   module PATH                 the candidate's cubin; globals N NAME ADDRESS BYTES ...  where host code believes them
//   kernels N (NAME COUNT OFFSET...)...   where each parameter lies in the buffers of launches
//   map ID N (SLOT AT WRITABLE ADDRESS BYTES NAME)...    a slot at an address; the tensor within it
//   list ID COUNT               COUNT lines of a launch list follow; its scratch memory is mapped
//   drop ID                     forget the list and the mappings of that number
//   call ID POISON ACCOUNT RESTORE COLD      replay it once; scratch filled with byte POISON; with ACCOUNT 1, each piece
//                               of work timed; with RESTORE 1, global variables as they were at first; with COLD 1, after
//                               the L2 cache was emptied
//   time ID POISON              globals restored, cold L2, then replay it between two events
//   again ID COUNT POISON       replay it COUNT times without a pause, timed from outside; before each, globals are reset
//                               and scratch is filled, as before a single call
//   profile ID                  once to warm up, once between profiler marks
//   fact QUESTION               what the recorder asked
//   unload                      forget the module
#include <cuda.h>
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>
#include <cxxabi.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>

#include "launcher.h"
#include "operations.h"
#include "protocol.h"
#include "recording.h"

namespace {

Channel channel;
cudaStream_t stream;
cudaEvent_t flush_begin, call_begin, call_end;
uint4* flush_data;
size_t flush_bytes;
uint32_t* sink;
float usual_flush_us;

CUmodule module;
std::vector<Moved> globals;
struct Pristine { CUdeviceptr address; std::vector<uint8_t> bytes; };
std::vector<Pristine> pristine;

std::map<std::string, std::vector<size_t>> offsets;   // of each kernel's parameters in its buffer

struct Ready {
  Operation o;
  CUfunction function = nullptr;
  std::vector<void*> parameters;      // each in the operation's bytes: where the driver wants them is its own affair
  cudaEvent_t begin = nullptr, end = nullptr;
};
struct List {
  std::vector<Ready> operations;
  std::vector<Mapping> scratch;
  std::map<uint64_t, uint64_t> blocks;   // of scratch memory: address to bytes
  std::string error;
};
std::map<int, List> lists;
std::map<int, std::vector<Mapping>> mapped;

double now_us() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

float elapsed_us(cudaEvent_t begin, cudaEvent_t end) {
  float ms = 0;
  cudaEventElapsedTime(&ms, begin, end);
  return ms * 1000;
}

void flush_cache() {
  for (int pass = 0; pass < 2; ++pass) read_through(flush_data, flush_bytes / sizeof(uint4), sink, stream);
}

// --- device code ----------------------------------------------------------------------------------
void do_module(std::istringstream& words) {
  std::string path;
  std::getline(words >> std::ws, path);
  std::ifstream file(path, std::ios::binary);
  std::vector<char> image((std::istreambuf_iterator<char>(file)), {});
  if (image.empty()) return channel.fail("load: there is no " + path);
  if (CUresult error = driver().cuModuleLoadData(&module, image.data())) return channel.fail("load: " + name_of(error));
  globals.clear();
  pristine.clear();
  channel.ok();
}

void do_kernels(std::istringstream& words) {
  size_t count = 0;
  words >> count;
  offsets.clear();
  for (size_t i = 0; i < count; ++i) {
    std::string name;
    size_t parameters = 0;
    words >> name >> parameters;
    std::vector<size_t>& mine = offsets[name];
    mine.resize(parameters);
    for (size_t& offset : mine) words >> offset;
  }
  channel.ok();
}

void do_globals(std::istringstream& words) {
  size_t count = 0;
  words >> count;
  for (size_t i = 0; i < count; ++i) {
    std::string name;
    uint64_t address = 0, bytes = 0;
    words >> name >> address >> bytes;
    CUdeviceptr real = 0;
    size_t size = 0;
    if (driver().cuModuleGetGlobal(&real, &size, module, name.c_str())) continue;   // the compiler left it out
    globals.push_back({address, std::max<uint64_t>(bytes, size), (uint64_t)real});
    Pristine copy{real, std::vector<uint8_t>(size)};
    if (size) driver().cuMemcpyDtoH(copy.bytes.data(), real, size);
    pristine.push_back(std::move(copy));
  }
  channel.ok();
}

void restore_globals() {
  for (const Pristine& one : pristine)
    if (!one.bytes.empty()) driver().cuMemcpyHtoDAsync(one.address, one.bytes.data(), one.bytes.size(), stream);
}

// --- memory ---------------------------------------------------------------------------------------
void do_slots(std::istringstream& words) {
  size_t count = 0;
  words >> count;
  std::vector<uint64_t> sizes(count);
  for (uint64_t& size : sizes) words >> size;
  std::string error = take_slots(sizes, channel.descriptors);
  error.empty() ? channel.ok() : channel.fail("slots: " + error);
}

void do_map(std::istringstream& words) {
  int id = 0;
  size_t count = 0;
  words >> id >> count;
  std::vector<Mapping>& here = mapped[id];
  for (size_t i = 0; i < count; ++i) {
    size_t slot = 0;
    uint64_t at = 0, address = 0, bytes = 0;
    int writable = 0;
    std::string name;
    words >> slot >> at >> writable >> address >> bytes >> name;
    std::string error = map_slot(slot, at, writable != 0, &here);
    if (!error.empty()) return channel.fail("map " + name + ": " + error);
  }
  channel.ok();
}

void do_drop(std::istringstream& words) {
  int id = 0;
  words >> id;
  cudaDeviceSynchronize();
  unmap(&mapped[id]);
  mapped.erase(id);
  auto found = lists.find(id);
  if (found != lists.end()) {
    for (Ready& ready : found->second.operations)
      if (ready.begin) cudaEventDestroy(ready.begin), cudaEventDestroy(ready.end);
    give_back(&found->second.scratch);
    lists.erase(found);
  }
  channel.ok();
}

// --- lists ----------------------------------------------------------------------------------------
// A tensor map that the host code asked for is encoded here, and put where its mark lies.
void place_maps(Operation* o, const std::map<int, CUtensorMap>& maps) {
  for (size_t at = 0; at + sizeof(CUtensorMap) <= o->bytes.size(); at += 64) {
    uint64_t words[3];
    memcpy(words, &o->bytes[at], sizeof words);
    if (words[0] != recording::kMark[0] || words[1] != recording::kMark[1]) continue;
    auto found = maps.find((int)words[2]);
    if (found != maps.end()) memcpy(&o->bytes[at], &found->second, sizeof(CUtensorMap));
  }
}

std::string prepare_operation(Operation& o, std::map<int, CUtensorMap>* maps, List* list) {
  Ready ready;
  if (o.kind == Operation::Map) {
    CUresult error = encode(o, &(*maps)[o.value]);
    return error ? "cuTensorMapEncode: " + name_of(error) : "";
  }
  if (o.kind == Operation::Free) {
    auto block = list->blocks.find(o.target);
    if (block == list->blocks.end()) return "cudaFreeAsync: not from cudaMallocAsync";
    o.width = block->second;
    ready.o = std::move(o);
    list->operations.push_back(std::move(ready));
    return "";
  }
  if (o.kind == Operation::Alloc) {
    list->blocks[o.target] = o.width;
    return take_scratch(o.target, o.width, &list->scratch);
  }
  move_globals(&o, globals);
  if (o.kind == Operation::Launch || o.kind == Operation::Upload) place_maps(&o, *maps);
  if (!o.kernel.empty()) {
    CUresult error = driver().cuModuleGetFunction(&ready.function, module, o.kernel.c_str());
    if (error) return o.kernel + ": " + name_of(error);
  }
  ready.o = std::move(o);
  for (size_t offset : ready.o.kind == Operation::Launch ? offsets[ready.o.kernel] : std::vector<size_t>())
    if (offset < ready.o.bytes.size()) ready.parameters.push_back(ready.o.bytes.data() + offset);
  list->operations.push_back(std::move(ready));
  return "";
}

void do_list(std::istringstream& words) {
  int id = 0;
  size_t count = 0;
  words >> id >> count;
  List& list = lists[id];
  std::map<int, CUtensorMap> maps;
  std::string line;
  for (size_t i = 0; i < count && channel.line(&line); ++i) {
    Operation o;
    std::string error = read_operation(line, &o) ? "" : "an operation that cannot be read";
    if (error.empty()) error = prepare_operation(o, &maps, &list);
    if (list.error.empty()) list.error = error;
  }
  channel.ok();
}

CUresult launch(const Ready& ready, bool first) {
  const Operation& o = ready.o;
  CUlaunchAttribute attributes[4];
  unsigned count = 0;
  if (o.cooperative) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attributes[count++].value.cooperative = 1;
  }
  // The first launch of a call depends on nothing: what runs before it is not the candidate's.
  if (o.dependent && !first) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attributes[count++].value.programmaticStreamSerializationAllowed = 1;
  }
  if (o.cluster[0]) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attributes[count++].value.clusterDim = {o.cluster[0], o.cluster[1], o.cluster[2]};
  }
  if (o.scheduling) {
    attributes[count].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE;
    attributes[count++].value.clusterSchedulingPolicyPreference = (CUclusterSchedulingPolicy)o.scheduling;
  }
  CUlaunchConfig config{};
  config.gridDimX = o.grid[0], config.gridDimY = o.grid[1], config.gridDimZ = o.grid[2];
  config.blockDimX = o.block[0], config.blockDimY = o.block[1], config.blockDimZ = o.block[2];
  config.sharedMemBytes = (unsigned)o.shared;
  config.hStream = stream;
  config.attrs = attributes;
  config.numAttrs = count;
  return driver().cuLaunchKernelEx(&config, ready.function, (void**)ready.parameters.data(), nullptr);
}

CUresult play(const Ready& ready, bool first) {
  const Operation& o = ready.o;
  switch (o.kind) {
    case Operation::Attribute:
      return driver().cuFuncSetAttribute(ready.function, (CUfunction_attribute)o.attribute, o.value);
    case Operation::Launch: return launch(ready, first);
    case Operation::Fill:
      if (o.height == 1) return driver().cuMemsetD8Async(o.target, (unsigned char)o.value, o.width, stream);
      return driver().cuMemsetD2D8Async(o.target, o.target_pitch, (unsigned char)o.value, o.width, o.height, stream);
    case Operation::Copy:
      if (o.height == 1) return driver().cuMemcpyDtoDAsync(o.target, o.source, o.width, stream);
      return (CUresult)cudaMemcpy2DAsync((void*)o.target, o.target_pitch, (void*)o.source, o.source_pitch, o.width,
                                         o.height, cudaMemcpyDeviceToDevice, stream);
    case Operation::Upload: return driver().cuMemcpyHtoDAsync(o.target, o.bytes.data(), o.bytes.size(), stream);
    default: return CUDA_SUCCESS;
  }
}

// Puts the whole list on the stream; the first error ends it. Scratch memory that was given back is filled with `poison`,
// if that is a byte: nobody may read it any more.
void replay(List& list, bool accounting, int poison = -1) {
  bool first = true;
  for (Ready& ready : list.operations) {
    if (ready.o.kind == Operation::Free) {
      if (poison >= 0) driver().cuMemsetD8Async(ready.o.target, (unsigned char)poison, ready.o.width, stream);
      continue;
    }
    bool timed = accounting && ready.o.works();
    if (timed) {
      if (!ready.begin) cudaEventCreate(&ready.begin), cudaEventCreate(&ready.end);
      cudaEventRecord(ready.begin, stream);
    }
    CUresult error = play(ready, first);
    if (timed) cudaEventRecord(ready.end, stream);
    if (ready.o.kind == Operation::Launch) first = false;   // what precedes the first one is not the candidate's
    if (error) {
      list.error = std::string(ready.o.title()) + ": " + name_of(error);
      return;
    }
  }
}

void await(List& list) {
  cudaError_t error = cudaStreamSynchronize(stream);
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  if (error != cudaSuccess && list.error.empty())
    list.error = std::string("while running: ") + cudaGetErrorName(error) + ", " + cudaGetErrorString(error);
}

std::string account(List& list, bool accounting) {
  std::ostringstream out;
  out << "\"error\": " << quoted(list.error) << ", \"work\": [";
  size_t shown = 0;
  for (const Ready& ready : list.operations) {
    const Operation& o = ready.o;
    if (!o.works() || shown >= 256) continue;
    int status = 0;
    std::unique_ptr<char, void (*)(void*)> readable(abi::__cxa_demangle(o.title(), nullptr, nullptr, &status), free);
    const bool kernel = o.kind == Operation::Launch;
    out << (shown++ ? ", " : "") << "{\"name\": " << quoted(kernel && status == 0 ? readable.get() : o.title())
        << ", \"grid\": [";
    for (int d = 0; d < 3; ++d) out << (d ? ", " : "") << (kernel ? o.grid[d] : 1);
    out << "], \"block\": [";
    for (int d = 0; d < 3; ++d) out << (d ? ", " : "") << (kernel ? o.block[d] : 1);
    out << "], \"shared_bytes\": " << o.shared;
    if (accounting && ready.begin && list.error.empty()) out << ", \"us\": " << elapsed_us(ready.begin, ready.end);
    out << "}";
  }
  out << "]";
  return out.str();
}

List* find(std::istringstream& words) {
  int id = 0;
  words >> id;
  auto found = lists.find(id);
  if (found == lists.end()) channel.fail("there is no list " + std::to_string(id));
  return found == lists.end() ? nullptr : &found->second;
}

// Scratch memory of every list that is mapped: nothing that an earlier call left there is there for the next.
void fill_scratch(int poison) {
  for (const auto& [id, list] : lists)
    for (const Mapping& one : list.scratch) driver().cuMemsetD8Async(one.address, (unsigned char)poison, one.bytes, stream);
}

void do_call(std::istringstream& words) {
  List* list = find(words);
  if (!list) return;
  int poison = 0, accounting = 0, restore = 1, cold = 0;
  words >> poison >> accounting >> restore >> cold;
  if (list->error.empty()) {
    if (restore) restore_globals();
    fill_scratch(poison);
    if (cold) flush_cache();
    replay(*list, accounting != 0, accounting ? -1 : poison);
    await(*list);
  }
  channel.answer(account(*list, accounting != 0));
}

void do_time(std::istringstream& words) {
  List* list = find(words);
  if (!list) return;
  double wall = 0;
  int poison = 0;
  words >> poison;
  if (list->error.empty()) {
    restore_globals();
    fill_scratch(poison);
    driver().cuCtxResetPersistingL2Cache();
    cudaDeviceSynchronize();
    double start = now_us();
    cudaEventRecord(flush_begin, stream);
    flush_cache();
    cudaEventRecord(call_begin, stream);
    replay(*list, false);
    cudaEventRecord(call_end, stream);
    await(*list);
    wall = now_us() - start;
  }
  std::ostringstream out;
  if (list->error.empty())
    out << "\"event_us\": " << elapsed_us(call_begin, call_end) << ", \"span_us\": " << elapsed_us(flush_begin, call_end)
        << ", \"wall_us\": " << wall << ", ";
  channel.answer(out.str() + account(*list, false));
}

void do_again(std::istringstream& words) {
  List* list = find(words);
  if (!list) return;
  int count = 1, poison = 0;
  words >> count >> poison;
  // Every call finds globals and scratch as a single one does; what that takes is measured first and taken off.
  double wall[2] = {0, 0}, event[2] = {0, 0};
  for (bool whole : {false, true}) {
    cudaDeviceSynchronize();
    cudaEventRecord(call_begin, stream);
    double start = now_us();
    for (int i = 0; i < count && list->error.empty(); ++i) {
      restore_globals();
      fill_scratch(poison);
      if (whole) replay(*list, false);
    }
    cudaEventRecord(call_end, stream);
    await(*list);
    wall[whole] = now_us() - start;
    if (list->error.empty()) event[whole] = elapsed_us(call_begin, call_end);
  }
  std::ostringstream out;
  out << "\"wall_us\": " << wall[1] - wall[0] << ", \"event_us\": " << event[1] - event[0] << ", ";
  channel.answer(out.str() + account(*list, false));
}

void do_profile(std::istringstream& words) {
  List* list = find(words);
  if (!list) return;
  for (int round = 0; round < 2 && list->error.empty(); ++round) {
    restore_globals();
    fill_scratch(0xa5);
    await(*list);
    if (round) cudaProfilerStart();
    replay(*list, false);
    await(*list);
    if (round) cudaProfilerStop();
  }
  channel.answer(account(*list, false));
}

void do_fact(std::istringstream& words) {
  std::string question, kernel;
  int64_t threads = 0, other = 0, size = 1;
  words >> question >> kernel >> threads >> other >> size;
  CUfunction function;
  if (CUresult error = driver().cuModuleGetFunction(&function, module, kernel.c_str()))
    return channel.fail(kernel + ": " + name_of(error));
  int64_t value = 0;
  if (CUresult error = occupancy(question, function, (int)threads, (size_t)other, (int)size, &value))
    return channel.fail(question + ": " + name_of(error));
  channel.answer("\"value\": " + std::to_string(value));
}

std::string prepare(size_t bytes, uint64_t window, uint64_t window_bytes) {
  flush_bytes = bytes;
  auto check = [](cudaError_t error, const char* what) {
    return error == cudaSuccess ? std::string() : std::string(what) + ": " + cudaGetErrorString(error);
  };
  std::string error = check(cudaSetDevice(0), "device");
  if (error.empty()) error = check(cudaFree(nullptr), "device");
  if (error.empty()) error = check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  if (error.empty()) error = reserve_window(window, window_bytes);
  for (cudaEvent_t* event : {&flush_begin, &call_begin, &call_end}) cudaEventCreate(event);
  if (error.empty()) error = check(cudaMalloc((void**)&flush_data, flush_bytes), "flush memory");
  if (error.empty()) error = check(cudaMalloc((void**)&sink, 4), "flush memory");
  if (!error.empty()) return error;
  cudaMemsetAsync(flush_data, 0, flush_bytes, stream);
  flush_cache();
  cudaStreamSynchronize(stream);
  std::vector<float> times;
  for (int i = 0; i < 5; ++i) {
    cudaEventRecord(flush_begin, stream);
    flush_cache();
    cudaEventRecord(call_begin, stream);
    if (cudaStreamSynchronize(stream) != cudaSuccess) return "warm-up failed";
    times.push_back(elapsed_us(flush_begin, call_begin));
  }
  std::sort(times.begin(), times.end());
  usual_flush_us = times[2];
  return "";
}

}  // namespace

// launcher FLUSH_BYTES WINDOW WINDOW_BYTES [SOCKET]: under a tool, the socket's path.
int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (argc < 4 || !channel.open_at(argc > 4 ? argv[4] : nullptr)) return 2;
  std::string error = prepare(strtoull(argv[1], nullptr, 10), strtoull(argv[2], nullptr, 10), strtoull(argv[3], nullptr, 10));
  if (!error.empty()) {
    channel.fail(error);
    return 4;
  }
  channel.answer("\"ready\": true, \"flush_us\": " + std::to_string(usual_flush_us) + ", " + description());
  for (std::string line; channel.line(&line);) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "slots") do_slots(words);
    else if (command == "module") do_module(words);
    else if (command == "kernels") do_kernels(words);
    else if (command == "globals") do_globals(words);
    else if (command == "map") do_map(words);
    else if (command == "list") do_list(words);
    else if (command == "drop") do_drop(words);
    else if (command == "call") do_call(words);
    else if (command == "time") do_time(words);
    else if (command == "again") do_again(words);
    else if (command == "profile") do_profile(words);
    else if (command == "fact") do_fact(words);
    else if (command == "unload") { driver().cuModuleUnload(module); channel.ok(); }
    else if (!command.empty()) channel.fail("unknown command " + command);
  }
  _exit(0);
}
