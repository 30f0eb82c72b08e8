// The player without a GPU: launch lists run on the PTX machine, at the addresses that they were recorded for. It tells
// no time, but finds what is wrong and counts what a model of time needs. Commands as in launcher.cpp, and:
//
//   slots N (START BYTES)...           one descriptor came along: a file that holds the judge's memory
//   module PATH                        the candidate's PTX
//   draws SEED SMS SLOTS BLOCKS INEXACT SKIPS STALE UNORDERED WORK   what the GPU has, what hardware does not promise, and how
//                                      much is checked and run, for calls from now on
//   resident ID N1 ...                 clusters that the GPU runs at once, of each launch of the list
//   repeat ADDRESS BYTES PERIOD        let these bytes show their first PERIOD over and over
//   count ID POISON M V1 ... V12 ...   replay it; of launch k, run some blocks for GPU model k of M, record costs
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <thread>

#include "operations.h"
#include "protocol.h"
#include "recording.h"

extern "C" {
struct Machine;
struct Loaded;
Machine* ptx_machine_new();
void ptx_memory_add(Machine*, uint64_t start, uint64_t bytes, const char* name, int kind);
int ptx_memory_remove(Machine*, uint64_t start);
void ptx_memory_written(Machine*, uint64_t start, uint64_t bytes);
const char* ptx_load(Machine*, const char* text, uint64_t length, Loaded** handle);
void ptx_model(Machine*, const double* values, int count);
void ptx_draws(Machine*, uint64_t seed, uint32_t multiprocessors, uint32_t warp_slots, uint32_t most_blocks, uint32_t inexact,
               int skips, int stale, int unordered, uint64_t most_work);
void ptx_launch_attributes(Machine*, int dependent, int cooperative, const uint32_t* cluster, uint64_t resident);
const char* ptx_tensor_map(Machine*, uint64_t number, int im2col, const int64_t* numbers, uint64_t count);
void ptx_tensor_maps_clear(Machine*, uint64_t mark, uint64_t second_mark);
uint64_t ptx_heap_clear(Machine*);
const char* ptx_launch(Machine*, Loaded*, const char* kernel, const uint32_t* grid, const uint32_t* block,
                       uint64_t dynamic_shared, const uint8_t* parameters, uint64_t parameter_bytes, uint64_t budget,
                       int threads);
}

namespace {

constexpr size_t kModelValues = 12;
constexpr int kPlain = 0, kTracked = 1, kReadOnly = 2;   // of memory
constexpr uint64_t kMostCopied = 256 << 20;   // bytes of one copy or fill that is done where only costs count
constexpr size_t kMapAddress = 2;             // which number of a tensor map is its address
constexpr uint64_t kBudget = 50'000'000;   // warp instructions of one warp

Channel channel;
Machine* machine;
Loaded* loaded;
std::string description;                   // of the module, by the machine
int threads = 1;
int memory_file = -1;
std::vector<std::pair<uint64_t, uint64_t>> slots;   // where each begins in the file, and its bytes
std::vector<Moved> globals;
std::vector<std::vector<uint8_t>> pristine;

struct Range { uint64_t address, bytes; bool writable; };
struct Mapped { std::vector<Range> pages, tensors; };
std::map<int, Mapped> mapped;
std::map<int, std::vector<Operation>> lists;
std::map<int, std::vector<uint64_t>> residents;     // of each launch of a list, where known

// What the replay that is under way did.
struct Replay {
  bool execute = true, restore = true;
  int poison = 0xa5;
  std::vector<double> models;
  std::vector<uint64_t> resident;
  std::map<uint64_t, uint64_t> scratch;    // held: address to bytes
  std::vector<Range> pages;
  size_t launched = 0;
  bool after_launch = false;               // the operation before was a launch: one may depend on it
  std::string work, error;
};

char* at(uint64_t address) { return (char*)(uintptr_t)address; }

// The whole pages around [address, address + bytes).
Range pages_around(uint64_t address, uint64_t bytes) {
  uint64_t begin = address / recording::kPage * recording::kPage;
  return {begin, (address + bytes - begin + recording::kPage - 1) / recording::kPage * recording::kPage, true};
}

void do_slots(std::istringstream& words) {
  size_t count = 0;
  words >> count;
  slots.assign(count, {0, 0});
  for (auto& [start, bytes] : slots) words >> start >> bytes;
  if (channel.descriptors.empty()) return channel.fail("slots: no descriptor");
  if (memory_file >= 0) close(memory_file);
  memory_file = channel.descriptors.front();
  channel.descriptors.pop_front();
  channel.ok();
}

void do_module(std::istringstream& words) {
  std::string path;
  std::getline(words >> std::ws, path);
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  description = ptx_load(machine, text.str().data(), text.str().size(), &loaded);
  if (!loaded) return channel.fail("load: " + description);
  channel.ok();
}

void do_globals(std::istringstream& words) {
  size_t count = 0;
  words >> count;
  for (size_t i = 0; i < count; ++i) {
    std::string name;
    uint64_t address = 0, bytes = 0;
    words >> name >> address >> bytes;
    std::string key = "\"" + name + "\": [";
    size_t found = description.find(key, description.find("\"globals\""));
    if (found == std::string::npos) continue;
    uint64_t real = 0, size = 0;
    sscanf(description.c_str() + found + key.size(), "%lu, %lu", &real, &size);
    globals.push_back({address, size, real});
    pristine.emplace_back(at(real), at(real) + size);
  }
  channel.ok();
}

void do_map(std::istringstream& words) {
  int id = 0;
  size_t count = 0;
  words >> id >> count;
  Mapped& here = mapped[id];
  for (size_t i = 0; i < count; ++i) {
    size_t slot = 0;
    uint64_t where = 0, address = 0, bytes = 0;
    int writable = 0;
    std::string name;
    words >> slot >> where >> writable >> address >> bytes >> name;
    if (slot >= slots.size()) return channel.fail("map: no such slot");
    void* got = mmap(at(where), slots[slot].second, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE,
                     memory_file, (off_t)slots[slot].first);
    if (got != at(where)) return channel.fail("map " + name + ": the addresses are taken");
    here.pages.push_back({where, slots[slot].second, writable != 0});
    here.tensors.push_back({address, bytes, writable != 0});
    if (bytes) ptx_memory_add(machine, address, bytes, name.c_str(), writable ? kPlain : kReadOnly);
  }
  channel.ok();
}

void do_list(std::istringstream& words) {
  int id = 0;
  size_t count = 0;
  words >> id >> count;
  std::vector<Operation>& list = lists[id];
  std::string line;
  bool readable = true;
  for (size_t i = 0; i < count && channel.line(&line); ++i) {
    Operation o;
    readable = read_operation(line, &o) && readable;
    move_globals(&o, globals);
    if (o.kind == Operation::Map && o.numbers.size() > kMapAddress)
      o.numbers[kMapAddress] = (int64_t)moved((uint64_t)o.numbers[kMapAddress], globals);
    list.push_back(std::move(o));
  }
  readable ? channel.ok() : channel.fail("an operation that cannot be read");
}

void do_drop(std::istringstream& words) {
  int id = 0;
  words >> id;
  for (const Range& tensor : mapped[id].tensors)
    if (tensor.bytes) ptx_memory_remove(machine, tensor.address);
  for (const Range& pages : mapped[id].pages) munmap(at(pages.address), pages.bytes);
  mapped.erase(id);
  lists.erase(id);
  residents.erase(id);
  channel.ok();
}

void do_resident(std::istringstream& words) {
  int id = 0;
  words >> id;
  residents[id].clear();
  for (uint64_t clusters; words >> clusters;) residents[id].push_back(clusters);
  channel.ok();
}

void do_draws(std::istringstream& words) {
  uint64_t seed = 0;
  uint32_t multiprocessors = 1, warp_slots = 1, most_blocks = 0, inexact = 0;
  uint64_t most_work = 0;
  int skips = 0, stale = 0, unordered = 0;
  words >> seed >> multiprocessors >> warp_slots >> most_blocks >> inexact >> skips >> stale >> unordered >> most_work;
  ptx_draws(machine, seed, multiprocessors, warp_slots, most_blocks, inexact, skips, stale, unordered, most_work);
  channel.ok();
}

void do_repeat(std::istringstream& words) {
  size_t address = 0, bytes = 0, period = 0, page = (size_t)sysconf(_SC_PAGESIZE);
  words >> address >> bytes >> period;
  size_t first = (address + page - 1) / page * page, end = (address + bytes) / page * page;
  if (!period || period % page) return channel.fail("repeat: not a period");
  for (size_t where = first + period; where < end; where += period) {
    // A shared mapping whose old size is zero is not moved but mapped a second time.
    void* again = mremap(at(first), 0, std::min(period, end - where), MREMAP_MAYMOVE | MREMAP_FIXED, at(where));
    if (again == MAP_FAILED) return channel.fail("repeat: the memory cannot be mapped again");
  }
  channel.ok();
}

// --- one operation after the other ------------------------------------------------------------------
bool held(uint64_t address, uint64_t bytes, bool writing, const Mapped& mine, const Replay& replay) {
  auto inside = [&](uint64_t start, uint64_t size) {
    return address >= start && address - start <= size && bytes <= size - (address - start);
  };
  for (const Range& tensor : mine.tensors)
    if (inside(tensor.address, tensor.bytes)) return tensor.writable || !writing;
  for (auto [start, size] : replay.scratch)
    if (inside(start, size)) return true;
  for (const Moved& global : globals)
    if (inside(global.real, global.bytes)) return true;
  return false;
}

void enter(Replay* replay, const std::string& fields) { replay->work += (replay->work.empty() ? "{" : ", {") + fields + "}"; }

std::string run_copy(const Operation& o, const Mapped& mine, Replay* replay) {
  replay->after_launch = false;
  for (uint64_t row = 0; row < o.height; ++row) {
    uint64_t target = o.target + row * o.target_pitch, source = o.source + row * o.source_pitch;
    if (!held(target, o.width, true, mine, *replay)) return std::string(o.title()) + ": outside what may be written";
    if (o.kind == Operation::Copy && !held(source, o.width, false, mine, *replay))
      return std::string(o.title()) + ": outside device memory";
    if (!replay->execute && o.width * o.height > kMostCopied) continue;
    if (o.kind == Operation::Fill) memset(at(target), o.value, o.width);
    else if (o.kind == Operation::Copy) memmove(at(target), at(source), o.width);
    else memcpy(at(target), o.bytes.data(), o.width);
    ptx_memory_written(machine, target, o.width);
  }
  enter(replay, "\"name\": \"" + std::string(o.title()) +
                    "\", \"grid\": [1, 1, 1], \"block\": [1, 1, 1], \"shared_bytes\": 0, \"bytes\": " +
                    std::to_string(o.width * o.height));
  return "";
}

std::string run_alloc(const Operation& o, Replay* replay) {
  Range pages = pages_around(o.target, o.width);
  void* got = mmap(at(pages.address), pages.bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got != at(pages.address)) return "cudaMallocAsync: out of memory";
  replay->pages.push_back(pages);
  if (replay->execute || o.width < 1 << 20) memset(at(o.target), replay->poison, o.width);
  replay->scratch[o.target] = o.width;
  ptx_memory_add(machine, o.target, o.width, "scratch", replay->execute ? kTracked : kPlain);
  return "";
}

std::string run_map(const Operation& o) {
  std::string wrong = ptx_tensor_map(machine, (uint64_t)o.value, o.im2col, o.numbers.data(), o.numbers.size());
  return wrong.empty() || wrong.compare(0, 3, "not") == 0 ? wrong : "cuTensorMapEncode: " + wrong;
}

std::string run_launch(const Operation& o, Replay* replay) {
  const size_t number = replay->launched++;
  if (!replay->execute) {
    size_t first = number * kModelValues;
    if (first + kModelValues > replay->models.size()) return "it launched more than was planned";
    ptx_model(machine, &replay->models[first], (int)kModelValues);
  }
  ptx_launch_attributes(machine, o.dependent && replay->after_launch, o.cooperative, o.cluster,
                        number < replay->resident.size() ? replay->resident[number] : 0);
  replay->after_launch = true;
  std::vector<uint8_t> parameters = o.bytes;
  parameters.resize(std::max<size_t>(parameters.size(), 64));
  std::string report = ptx_launch(machine, loaded, o.kernel.c_str(), o.grid, o.block, o.shared, parameters.data(),
                                  parameters.size(), kBudget, threads);
  std::ostringstream fields;
  fields << "\"name\": " << quoted(o.kernel) << ", \"grid\": [" << o.grid[0] << ", " << o.grid[1] << ", " << o.grid[2]
         << "], \"block\": [" << o.block[0] << ", " << o.block[1] << ", " << o.block[2] << "], \"shared_bytes\": "
         << o.shared << ", \"report\": " << report;
  enter(replay, fields.str());
  if (report.compare(0, 11, "{\"invalid\":") == 0) return o.kernel + ": invalid configuration";
  if (report.compare(0, 9, "{\"error\":") == 0 || report.find("\"unsupported\": ") != std::string::npos)
    return o.kernel + ": " + report;
  if (report.find("\"exhausted\": true") != std::string::npos) return o.kernel + ": more work than was allowed";
  if (report.find("\"stopped\": true") != std::string::npos) return o.kernel + ": stopped by a finding";
  return "";
}

std::string run_operation(const Operation& o, const Mapped& mine, Replay* replay) {
  switch (o.kind) {
    case Operation::Alloc: return run_alloc(o, replay);
    case Operation::Free:
      ptx_memory_remove(machine, o.target);
      replay->scratch.erase(o.target);
      return "";
    case Operation::Map: return run_map(o);
    case Operation::Launch: return run_launch(o, replay);
    case Operation::Attribute: return "";
    default: return run_copy(o, mine, replay);
  }
}

void run(int id, Replay replay) {
  auto found = lists.find(id);
  if (found == lists.end()) return channel.fail("there is no list " + std::to_string(id));
  for (size_t i = 0; replay.restore && i < globals.size(); ++i) memcpy(at(globals[i].real), pristine[i].data(), pristine[i].size());
  if (replay.execute) ptx_model(machine, nullptr, 0);
  ptx_tensor_maps_clear(machine, recording::kMark[0], recording::kMark[1]);
  replay.resident = residents[id];
  for (const Operation& o : found->second) {
    replay.error = run_operation(o, mapped[id], &replay);
    if (!replay.error.empty()) break;
  }
  for (auto [address, bytes] : replay.scratch) ptx_memory_remove(machine, address);
  for (const Range& pages : replay.pages) munmap(at(pages.address), pages.bytes);
  channel.answer("\"error\": " + quoted(replay.error) + ", \"heap_bytes\": " + std::to_string(ptx_heap_clear(machine)) +
                 ", \"work\": [" + replay.work + "]");
}

void do_call(std::istringstream& words) {
  int id = 0, poison = -1, accounting = 0, restore = 1;
  words >> id >> poison >> accounting >> restore;
  Replay replay;
  replay.restore = restore != 0;
  if (poison >= 0) replay.poison = poison;
  run(id, std::move(replay));
}

void do_count(std::istringstream& words) {
  int id = 0;
  size_t count = 0;
  words >> id;
  Replay replay;
  replay.execute = false;
  words >> replay.poison >> count;
  replay.models.assign(count * kModelValues, 0);
  for (double& value : replay.models) words >> value;
  run(id, std::move(replay));
}

}  // namespace

int main() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Every block takes some 100 KB for registers and shared memory and gives them back: fresh pages each time would
  // cost more than running it.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
  machine = ptx_machine_new();
  threads = std::max(1u, std::thread::hardware_concurrency());
  channel.answer("\"ready\": true");
  for (std::string line; channel.line(&line);) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "slots") do_slots(words);
    else if (command == "module") do_module(words);
    else if (command == "kernels") channel.ok();   // the machine knows where its own parameters lie
    else if (command == "globals") do_globals(words);
    else if (command == "map") do_map(words);
    else if (command == "list") do_list(words);
    else if (command == "drop") do_drop(words);
    else if (command == "call") do_call(words);
    else if (command == "draws") do_draws(words);
    else if (command == "resident") do_resident(words);
    else if (command == "repeat") do_repeat(words);
    else if (command == "count") do_count(words);
    else if (!command.empty()) channel.fail("unknown command " + command);
  }
  _exit(0);
}
