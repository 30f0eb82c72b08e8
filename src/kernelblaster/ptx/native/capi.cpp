// The machine as Python sees it: opaque handles, and JSON for everything that is not a number.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "frames.h"
#include "heap.h"
#include "machine.h"
#include "tensor_map.h"
#include "timing.h"

using namespace ptx;

namespace {

struct Machine {
  Memory memory;
  std::string answer;   // what the last call returned
  std::unique_ptr<Model> model;   // launches are sampled and their costs recorded while there is one
  Draws draws;
  uint64_t launches = 0;
  Heap heap;
  TensorMaps maps;
  struct {
    bool dependent = false, cooperative = false;
    uint32_t cluster[3] = {0, 0, 0};
    uint64_t resident = 0;
  } attributes;                   // of the next launch
  struct { std::string kernel; uint32_t running_from = 0; } before;   // the last launch, and who may still run when it starts
};

// Where the blocks of a cooperative launch count who has come: its size, and a word for the barrier.
struct Workspace {
  Machine& machine;
  uint64_t words[8] = {64};
  explicit Workspace(Machine& m) : machine(m) {
    machine.memory.add((uint64_t)(uintptr_t)words, sizeof words, "grid workspace", false);
  }
  ~Workspace() { machine.memory.remove((uint64_t)(uintptr_t)words); }
};

struct Loaded {
  std::shared_ptr<Module> module;
  std::vector<std::unique_ptr<uint64_t[]>> storage;   // of its global variables
  std::vector<uint64_t> starts;
};

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n') { result += "\\n"; continue; }
    if ((unsigned char)c < 32) { result += ' '; continue; }
    result += c;
  }
  return result + "\"";
}

void place_globals(Machine& machine, Loaded& loaded) {
  for (auto& [name, symbol] : loaded.module->globals) {
    if (symbol.space == Space::Shared) continue;
    loaded.storage.emplace_back(new uint64_t[symbol.bytes / 8 + 64]());
    uint64_t start = ((uint64_t)(uintptr_t)loaded.storage.back().get() + 255) / 256 * 256;
    symbol.address = start;
    if (!symbol.initial.empty()) memcpy((void*)(uintptr_t)start, symbol.initial.data(), symbol.initial.size());
    machine.memory.add(start, symbol.bytes, name, false);
    loaded.starts.push_back(start);
  }
  for (auto& [name, symbol] : loaded.module->globals)
    for (auto& [offset, other] : symbol.pointers) {
      auto found = loaded.module->globals.find(other);
      auto function = loaded.module->functions.find(other);
      if (found == loaded.module->globals.end() && function == loaded.module->functions.end())
        throw std::runtime_error("unknown symbol " + other);
      const uint64_t address = found != loaded.module->globals.end() ? found->second.address : address_of(*function->second);
      memcpy((void*)(uintptr_t)(symbol.address + offset), &address, 8);
    }
}

std::string describe(const Module& module) {
  std::ostringstream out;
  out << "{\"target\": " << quoted(module.target) << ", \"files\": [";
  for (size_t i = 0; i < module.files.size(); ++i) out << (i ? ", " : "") << quoted(module.files[i]);
  out << "], \"kernels\": [";
  bool first = true;
  for (const auto& [name, f] : module.functions) {
    if (!f->entry) continue;
    out << (first ? "" : ", ") << "{\"name\": " << quoted(name) << ", \"shared_bytes\": " << f->shared_bytes
        << ", \"local_bytes\": " << f->local_bytes << ", \"instructions\": " << f->code.size()
        << ", \"unsupported\": " << quoted(f->unsupported) << ", \"parameters\": [";
    for (size_t i = 0; i < f->parameters.size(); ++i)
      out << (i ? ", " : "") << "[" << f->parameters[i].offset << ", " << f->parameters[i].bytes << "]";
    out << "]}";
    first = false;
  }
  out << "], \"globals\": {";
  first = true;
  for (const auto& [name, symbol] : module.globals) {
    if (symbol.space == Space::Shared) continue;
    out << (first ? "" : ", ") << quoted(name) << ": [" << symbol.address << ", " << symbol.bytes << "]";
    first = false;
  }
  out << "}}";
  return out.str();
}

std::string report(const Launch& launch) {
  static const char* const classes[] = {"integer", "float32", "float64", "float16", "special", "convert", "move",
                                        "control", "load", "store", "atomic", "shared", "barrier", "warp", "tensor", "async"};
  const Counts& c = launch.counts;
  std::ostringstream out;
  out << "{\"findings\": [";
  for (size_t i = 0; i < launch.findings.size(); ++i) {
    const Finding& f = launch.findings[i];
    out << (i ? ", " : "") << "{\"kind\": " << quoted(f.kind) << ", \"detail\": " << quoted(f.detail)
        << ", \"kernel\": " << quoted(f.kernel) << ", \"line\": " << f.line << ", \"block\": [" << f.block[0] << ", "
        << f.block[1] << ", " << f.block[2] << "], \"thread\": [" << f.thread[0] << ", " << f.thread[1] << ", "
        << f.thread[2] << "]}";
  }
  out << "], ";
  if (!launch.unknown.empty()) out << "\"unsupported\": " << quoted(launch.unknown) << ", ";
  out << "\"doubtful\": " << (launch.doubtful ? "true" : "false") << ", \"exhausted\": " << (launch.exhausted ? "true" : "false")
      << ", \"apart\": " << (launch.function->reads_messages || launch.function->combines || launch.workspace ? "false" : "true");
  out << ", \"printed\": " << quoted(launch.printed) << ", \"stopped\": " << (launch.stopped ? "true" : "false") << ", \"counts\": {\"warp_instructions\": {";
  for (int i = 0; i < (int)Class::Count; ++i) out << (i ? ", " : "") << quoted(classes[i]) << ": " << c.warp_instructions[i];
  out << "}";
#define FIELD(name) out << ", \"" #name "\": " << c.name
  FIELD(thread_instructions); FIELD(total_warp_instructions); FIELD(global_load_requests); FIELD(global_load_sectors);
  FIELD(global_store_requests); FIELD(global_store_sectors); FIELD(shared_load_requests); FIELD(shared_load_wavefronts);
  FIELD(shared_store_requests); FIELD(shared_store_wavefronts); FIELD(shared_bank_conflicts);
  FIELD(local_requests); FIELD(local_sectors);
  FIELD(atomic_requests); FIELD(barriers); FIELD(divergent_branches); FIELD(branches); FIELD(global_load_bytes);
  FIELD(global_store_bytes); FIELD(tensor_operations); FIELD(blocks);
#undef FIELD
  out << "}}";
  return out.str();
}

std::string costs_text(const Costs& c) {
  static const char* const pipes[kPipes] = {"issue", "fma", "alu", "multiply", "special", "convert",
                                            "fp64", "half", "memory", "shuffle", "tensor"};
  std::ostringstream out;
  out << "{\"sampled\": " << c.sampled << ", \"latency\": " << c.latency << ", \"longest\": " << c.longest << ", \"pipes\": {";
  for (int k = 0; k < kPipes; ++k) out << (k ? ", " : "") << quoted(pipes[k]) << ": " << c.pipes[k];
  out << "}";
#define FIELD(name) out << ", \"" #name "\": " << c.name
  FIELD(lines); FIELD(missed_lines); FIELD(l1_sectors); FIELD(l1_hits); FIELD(store_sectors); FIELD(partial_lines);
  FIELD(atomic_sectors); FIELD(atomic_lanes); FIELD(hottest_atomic); FIELD(instructions);
#undef FIELD
  out << ", \"traffic\": [";
  bool first = true;
  for (const auto& [start, t] : c.traffic) {
    out << (first ? "" : ", ") << "{\"name\": " << quoted(t.name) << ", \"bytes\": " << t.bytes << ", \"first\": "
        << t.first << ", \"alone\": " << t.alone << ", \"again\": " << t.again << ", \"stored\": " << t.stored << "}";
    first = false;
  }
  out << "]}";
  return out.str();
}

// The launch's clusters, from its attribute or the kernel's text; or why they cannot be.
const char* clusters_of(Launch& launch, const uint32_t* wanted) {
  const uint32_t* own = launch.function->cluster;
  if (own[0] && wanted[0] && memcmp(own, wanted, sizeof launch.cluster)) return "another cluster size than the kernel has";
  if (const uint32_t* size = own[0] ? own : wanted[0] ? wanted : nullptr) std::copy(size, size + 3, launch.cluster);
  for (int d = 0; d < 3; ++d)
    if (!launch.cluster[d] || launch.cluster[d] > 16 || launch.grid[d] % launch.cluster[d]) return "grid of a kernel with clusters";
  return launch.together() > 16 ? "a cluster of more than 16 blocks" : nullptr;
}

// Grids are numbered from some number on, and clocks have run for a while.
void draw(Machine& machine, Launch& launch) {
  const uint64_t seed = mixed(machine.draws.seed, ++machine.launches);
  launch.draws = machine.draws;
  launch.draws.seed = seed;
  launch.draws.in_order = !machine.draws.seed || mixed(seed, 7) % 2;   // what one order hides, another may show
  launch.grid_id = 8 + mixed(machine.draws.seed, 0) % 5000 + machine.launches;
  launch.clock_start = (1ull << 36) + mixed(seed, 3) % (1ull << 42);
  launch.timer_start = (uint64_t)std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::system_clock::now().time_since_epoch()).count() / 32 * 32;
}

// Runs `body`; its text, or the error as JSON, stays alive in the machine until the next call.
template <typename Body>
const char* answered(Machine* machine, Body body) {
  try {
    machine->answer = body();
  } catch (const std::exception& error) {
    machine->answer = "{\"error\": " + quoted(error.what()) + "}";
  }
  return machine->answer.c_str();
}

}  // namespace

extern "C" {

Machine* ptx_machine_new() { return new Machine; }
void ptx_machine_free(Machine* machine) { delete machine; }

// `kind`: 0; 1 if reading it before it is written is a finding; 2 if writing to it is.
void ptx_memory_add(Machine* machine, uint64_t start, uint64_t bytes, const char* name, int kind) {
  machine->memory.add(start, bytes, name, kind == 1, kind == 2);
}
void ptx_memory_written(Machine* machine, uint64_t start, uint64_t bytes) { machine->memory.written(start, bytes); }
int ptx_memory_remove(Machine* machine, uint64_t start) { return machine->memory.remove(start); }

// From now on launches are sampled for a GPU that is described by these twelve numbers; by none: no more.
void ptx_model(Machine* machine, const double* v, int count) {
  machine->model.reset();
  if (count < 12) return;
  machine->model.reset(new Model{(uint64_t)v[0], (uint64_t)v[1], (uint64_t)v[2], (uint64_t)v[3], (uint64_t)v[4],
                                 (Model::Which)(int)v[5], v[6], v[7], v[8], v[9], v[10], v[11]});
}

// The tensor map of this number, as a launch list says it (tensor_map.h). Returns what is wrong with it, empty if nothing.
const char* ptx_tensor_map(Machine* machine, uint64_t number, int im2col, const int64_t* numbers, uint64_t count) {
  TensorMap map;
  machine->answer = read_tensor_map(im2col != 0, numbers, count, map);
  if (machine->answer.empty()) machine->maps.known[number] = map;
  return machine->answer.c_str();
}
// Kernels find a tensor map by two words that mark it, and its number; from now on there is none.
void ptx_tensor_maps_clear(Machine* machine, uint64_t mark, uint64_t second_mark) {
  machine->maps = {{}, {mark, second_mark}};
}

// Bytes of the device's heap that kernels hold, all of which they then give back.
uint64_t ptx_heap_clear(Machine* machine) {
  const uint64_t held = machine->heap.held;
  machine->heap.clear(machine->memory);
  return held;
}

// What the hardware is, and what is drawn for the launches that follow: see Draws.
void ptx_draws(Machine* machine, uint64_t seed, uint32_t multiprocessors, uint32_t warp_slots, uint32_t most_blocks,
               uint32_t inexact, int skips, int stale, int unordered, uint64_t most_work) {
  machine->draws = {seed, mixed(seed, 11), std::max(1u, multiprocessors), std::max(1u, warp_slots), most_blocks, inexact, skips != 0, stale != 0,
                    unordered != 0, true, most_work};
}

// Attributes of the next launch, all 0 otherwise. `dependent`: programmatic stream serialization, the kernel may start
// before the launch before it on this machine has ended. `cooperative`: cg::this_grid().sync() is allowed. `cluster`:
// blocks of a cluster in x, y, z; null or zeros: as the kernel was compiled. `resident`: clusters, or blocks where there are
// none, that the GPU runs at once; 0: as many as there are.
void ptx_launch_attributes(Machine* machine, int dependent, int cooperative, const uint32_t* cluster, uint64_t resident) {
  machine->attributes = {};
  machine->attributes.resident = resident;
  machine->attributes.dependent = dependent != 0;
  machine->attributes.cooperative = cooperative != 0;
  if (cluster) std::copy(cluster, cluster + 3, machine->attributes.cluster);
}

const char* ptx_load(Machine* machine, const char* text, uint64_t length, Loaded** handle) {
  *handle = nullptr;
  return answered(machine, [&] {
    auto loaded = std::make_unique<Loaded>();
    loaded->module = parse(std::string(text, length));
    place_globals(*machine, *loaded);
    std::string description = describe(*loaded->module);
    *handle = loaded.release();
    return description;
  });
}

void ptx_unload(Machine* machine, Loaded* loaded) {
  for (uint64_t start : loaded->starts) machine->memory.remove(start);
  delete loaded;
}

const char* ptx_launch(Machine* machine, Loaded* loaded, const char* kernel, const uint32_t* grid, const uint32_t* block,
                       uint64_t dynamic_shared, const uint8_t* parameters, uint64_t parameter_bytes, uint64_t budget,
                       int threads) {
  const auto attributes = std::exchange(machine->attributes, {});
  return answered(machine, [&] {
    auto found = loaded->module->functions.find(kernel);
    if (found == loaded->module->functions.end()) throw std::runtime_error(std::string("no kernel ") + kernel);
    const Function& f = *found->second;
    if (!f.unsupported.empty()) return "{\"unsupported\": " + quoted(f.unsupported) + "}";
    uint64_t count = (uint64_t)block[0] * block[1] * block[2];
    if (!count || count > 1024 || !grid[0] || !grid[1] || !grid[2] || (f.max_threads && count > (uint64_t)f.max_threads))
      return std::string("{\"invalid\": \"grid or block size\"}");
    if (f.shared_bytes + dynamic_shared > 228u << 10) return std::string("{\"invalid\": \"shared memory size\"}");
    Launch launch;
    launch.module = loaded->module.get();
    launch.function = &f;
    for (int d = 0; d < 3; ++d) { launch.grid[d] = grid[d]; launch.block[d] = block[d]; }
    launch.dynamic_shared = dynamic_shared;
    launch.parameters.assign(parameters, parameters + parameter_bytes);
    launch.parameters.resize(f.parameter_bytes + 16);
    launch.memory = &machine->memory;
    launch.budget = budget;
    draw(*machine, launch);
    const char* refused = clusters_of(launch, attributes.cluster);
    if (refused) return "{\"invalid\": " + quoted(refused) + "}";
    launch.resident = attributes.resident;
    launch.heap = &machine->heap;
    launch.maps = &machine->maps;
    std::unique_ptr<Workspace> workspace;
    if (attributes.cooperative) {
      if (launch.resident && launch.blocks() / launch.together() > launch.resident)
        return "{\"invalid\": \"a cooperative launch of " + std::to_string(launch.blocks()) + " blocks, of which the GPU runs " +
               std::to_string(launch.resident * launch.together()) + " at once\"}";
      workspace.reset(new Workspace(*machine));
      launch.workspace = (uint64_t)(uintptr_t)workspace->words;
    }
    launch.before = machine->before.kernel;
    launch.running_from = attributes.dependent ? machine->before.running_from : 0;
    if (!machine->model) {
      uint32_t first_serial = execute(launch, threads);
      machine->before.kernel = kernel;
      machine->before.running_from = launch.running_from ? launch.running_from : first_serial;
      return report(launch);
    }
    Costs costs = sample(launch, *machine->model, threads);
    std::string text = report(launch);
    return text.substr(0, text.size() - 1) + ", \"costs\": " + costs_text(costs) + "}";
  });
}

}  // extern "C"
