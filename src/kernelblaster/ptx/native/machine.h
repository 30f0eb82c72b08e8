// The PTX machine: real compiled PTX, executed a warp at a time under an active mask.
//
//   text --parse--> Module of Kernels --bind--> Inst with a handler each --execute--> memory, counts
//
// An instruction's meaning lives in a handler, a plain function that works on the lanes of
// `warp.active`. Handlers are found by the bind_* functions, one for each family of opcodes, from the
// opcode's dotted parts; an opcode that nobody binds is refused by name when it is executed.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace ptx {

constexpr int kLanes = 32;
constexpr uint32_t kAllLanes = 0xffffffffu;
constexpr int kPolledPlaces = 4;
constexpr uint64_t kAccessWork = 12;         // instructions that take the machine as long as a warp's access to memory
constexpr uint64_t kReservedShared = 1024;   // bytes at the beginning of a block's shared memory: the system's

// One virtual register for all lanes. 8-, 16- and 32-bit values occupy the low bits of u32[lane], with
// the upper bits unspecified (mask when reading 8- or 16-bit ones); 64-bit values occupy u64[lane].
// 128-bit registers (.b128) take two consecutive slots. A predicate is a mask in `mask`, bit = lane.
union alignas(64) Reg {
  uint64_t u64[kLanes];
  int64_t s64[kLanes];
  double f64[kLanes];
  uint32_t u32[kLanes];
  int32_t s32[kLanes];
  float f32[kLanes];
  uint32_t mask;
};

// Cluster is the shared memory of all blocks of a cluster (cluster.cpp).
enum class Space : uint8_t { Generic, Global, Shared, Local, Const, Param, Cluster };

// How an operand was written. Registers, predicates, immediates and special registers all end up as a
// slot of the warp's register file: immediates and symbol addresses are broadcast into slots of their
// own before a block starts, so a handler reads every source the same way: warp.reg(slot).
struct Operand {
  enum Kind : uint8_t { None, Register, Immediate, Address, Vector, Label, Symbol, Sink } kind = None;
  int slot = -1;                 // Register, Immediate, Symbol: where the value is
  bool predicate = false;        // the slot is a mask
  bool negated = false;          // !p
  std::vector<Operand> parts;    // Vector: {a, b, ...}
  int64_t offset = 0;            // Address: [slot + offset]; slot == -1: absolute offset
  std::string text;              // as written: labels, symbols, symbol names
  uint64_t bits = 0;             // Immediate: its value as written (floats: their bit pattern)
  int width = 0;                 // Register: bits (8, 16, 32, 64, 128; 1 for predicates)
};

// The slot to read an operand from. An immediate or a symbol has two: its value broadcast as 32-bit lanes
// (also for 8- and 16-bit types) and, in the next slot, as 64-bit lanes.
inline int source32(const Operand& o) { return o.slot; }
inline int source64(const Operand& o) {
  return o.kind == Operand::Immediate || o.kind == Operand::Symbol ? o.slot + 1 : o.slot;
}
// The slot of a destination, or -1 for the sink `_`.
inline int target(const Operand& o) { return o.kind == Operand::Register ? o.slot : -1; }

// An instruction as parsed: `add.rn.ftz.f32 %f1, %f2, 0f3F800000;` has parts {"add","rn","ftz","f32"}.
struct Parsed {
  std::vector<std::string> parts;
  std::vector<Operand> operands;   // destination(s) first; `a|b` destinations are two operands
  bool has(const char* part) const {
    for (size_t i = 1; i < parts.size(); ++i)
      if (parts[i] == part) return true;
    return false;
  }
  const std::string& op() const { return parts[0]; }
  const std::string& type() const { return parts.back(); }
  std::string name() const;        // the dotted opcode again
};

// What an instruction counts as.
enum class Class : uint8_t {
  Integer, Float32, Float64, Float16, Special, Convert, Move, Control, Load, Store, Atomic, Shared,
  Barrier, Warp, Tensor, Async, Count
};

// Instructions that the executor itself carries out, because they move lanes rather than values.
enum class Control : uint8_t {
  None, Branch, Exit, Barrier, Arrive, WarpSync, ClusterArrive, ClusterWait, Trap, Call, Return
};

struct Warp;
struct Inst;
using Handler = void (*)(Warp&, const Inst&);

// An instruction ready to run. Handlers may use the small fields as they like.
struct Inst {
  Handler run = nullptr;
  int dst[4] = {-1, -1, -1, -1};   // slots; -1: none or a sink (_)
  int src[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
  int64_t imm[4] = {0, 0, 0, 0};   // handler's own: offsets, cache flags, mask, target pc
  uint8_t flag[8] = {0};           // handler's own: negations, vector length, rounding, space
  int guard = -1;                  // predicate slot, or -1
  int members = -1;                // which of `src` is the member mask of a .sync instruction, or -1
  bool guard_negated = false;
  Class klass = Class::Integer;
  Control control = Control::None; // None: call `run`
  uint32_t line = 0;               // source line from .loc, 0 if unknown
  uint16_t file = 0;
  bool assembly = false;           // a person wrote it, between `begin inline asm` and `end inline asm`
  std::shared_ptr<Parsed> parsed;  // for messages and for rare handlers that want the text
};

struct Symbol {                    // a variable: .global, .const, .shared, .local or .param
  std::string name;
  Space space = Space::Global;
  uint64_t bytes = 0, align = 1, address = 0;   // address: absolute for global/const, else an offset
  std::vector<uint8_t> initial;
  std::vector<std::pair<uint64_t, std::string>> pointers;  // offset -> name of the symbol stored there
  bool dynamic = false;            // extern .shared x[]
};

struct Parameter { std::string name; uint64_t bytes = 0, align = 1, offset = 0; };

struct Function;

struct Call {                      // what one call instruction says
  struct Copy { uint64_t outside, inside, bytes; };   // between local memory of the caller and of the function
  std::string callee;
  std::vector<std::string> argument_names, result_names;   // .param variables of the caller
  const Function* function = nullptr;                       // null: provided by the machine, or through a pointer
  std::vector<Copy> arguments, results;
  int pointer = -1;                                         // slot of the function's address, if it is in a register
  struct Target { std::vector<Copy> arguments, results; };
  std::map<const Function*, Target> targets;                // that it may hold: whose parameters are as those named
};

struct Function {                  // a kernel (.entry) or a device function (.func)
  std::string name;
  bool entry = false;
  std::vector<Parameter> parameters, results;
  uint64_t parameter_bytes = 0;
  std::vector<Inst> code;
  std::unordered_map<std::string, int> labels;
  int slots = 0;                                   // registers, immediates and special registers
  std::vector<std::pair<int, uint64_t>> constants; // slot -> value broadcast before a block starts
  std::vector<std::pair<int, std::string>> symbols;// slot -> symbol whose address is broadcast
  std::map<std::string, Symbol> variables;         // .shared and .local of this function
  uint64_t shared_bytes = 0, local_bytes = 0;
  std::vector<Call> calls;
  uint64_t frame_bytes = 0;                        // of a kernel: local memory that each depth of calls takes
  int most_calls = 0;                              // of a kernel: how deep calls may be
  uint64_t stack_bytes() const { return local_bytes + (uint64_t)most_calls * frame_bytes; }   // of a lane
  int max_threads = 0;
  uint32_t cluster[3] = {0, 0, 0};                 // blocks that run together, if the text says so
  int grain = 4;                                   // log2 of its smallest access to shared or global memory
  std::string unsupported;                         // why it cannot be run at all, with the line
  bool reads_messages = false;                     // blocks may wait for others: strong loads, or atomics that return something
  bool combines = false;                           // blocks may add to what others wrote: reductions of global memory
};

struct Module {
  std::map<std::string, std::shared_ptr<Function>> functions;
  std::map<std::string, Symbol> globals;           // .global and .const, and module-level .shared
  std::map<std::string, bool> declared;            // device functions; whether their address is taken
  std::vector<std::string> files;
  std::string target;                              // sm_90
};

// A problem found while running; the first few of each kind are kept, with where they happened.
struct Finding {
  std::string kind, detail, kernel;
  uint32_t line = 0;
  uint32_t block[3] = {0, 0, 0}, thread[3] = {0, 0, 0};
};

struct Counts {
  uint64_t warp_instructions[(int)Class::Count] = {0};
  uint64_t thread_instructions = 0, total_warp_instructions = 0;
  uint64_t global_load_requests = 0, global_load_sectors = 0, global_store_requests = 0, global_store_sectors = 0;
  uint64_t shared_load_requests = 0, shared_load_wavefronts = 0, shared_store_requests = 0, shared_store_wavefronts = 0;
  uint64_t shared_bank_conflicts = 0;   // wavefronts beyond those that accesses of their width need
  uint64_t local_requests = 0, local_sectors = 0, atomic_requests = 0, barriers = 0, divergent_branches = 0, branches = 0;
  uint64_t global_load_bytes = 0, global_store_bytes = 0, tensor_operations = 0, blocks = 0;
  void add(const Counts& other);
  // Requests of warps to memory.
  uint64_t accesses() const {
    return global_load_requests + global_store_requests + shared_load_requests + shared_store_requests + local_requests;
  }
};

// Host memory that stands for device memory. Every access is checked against live allocations.
struct Allocation {
  uint64_t start = 0, bytes = 0;
  std::string name;
  bool freed = false;
  bool read_only = false;             // an input: a kernel that writes to it is stopped
  std::vector<uint8_t> written;       // a flag a byte, if tracked
  std::shared_ptr<uint64_t> tags;     // who touched it last (races.h), for grains of 1 << tags_grain bytes
  int tags_grain = 0;
};

struct Memory {
  // Addresses are real host pointers. Lookup must be fast: a sorted vector plus a one-entry cache per warp.
  std::map<uint64_t, Allocation> live;             // by start
  std::mutex lock;
  void add(uint64_t start, uint64_t bytes, const std::string& name, bool tracked, bool read_only = false);
  bool remove(uint64_t start);
  void written(uint64_t start, uint64_t bytes);    // by something else than a kernel
  Allocation* find(uint64_t address);              // the allocation that holds an address, or null
};

struct Block;

// A set of lanes at one place. Lanes of a warp that took different ways are several groups; the one with
// the smallest pc runs first, so that they meet again where their ways join.
struct Group {
  int pc = 0;
  uint32_t lanes = 0;
  const Inst* barrier = nullptr;    // the barrier at which these lanes wait, or null
  struct Frame* frame = nullptr;    // the function that they are in (frames.h)
  bool early = false;               // at a .sync instruction to which lanes that it names are still on their way
};

struct Warp {
  Block* block = nullptr;
  const Function* function = nullptr;   // the one that runs: a kernel, or a device function that it called
  Reg* registers = nullptr;         // `function->slots` of them
  struct Frame* frame = nullptr;    // of that function
  std::vector<std::shared_ptr<Frame>> frames;   // the kernel's is the first
  uint32_t active = 0;              // lanes that the current instruction applies to (guard included)
  uint32_t alive = 0;               // lanes that have not exited
  uint32_t carry = 0;               // CC.CF of the extended-precision instructions, bit = lane
  uint32_t arrived = 0, passed = 0; // lanes that came to the cluster's barrier; of which all others have come too
  int pc = 0;                       // of the running group
  int index = 0;                    // within the block
  int polls = 0;                    // strong reads that found what they had found before: many mean that it waits
  uint64_t polled[kPolledPlaces] = {0};   // what the last strong read found, by its place in the code
  uint64_t slept = 0;               // cycles of nanosleep
  uint32_t arrivals = 0;            // at barriers of the cluster
  uint32_t thread[kLanes][3];       // %tid
  uint8_t* local = nullptr;         // stack_bytes of the kernel for each lane
  uint8_t* local_written = nullptr; // a flag for each of these bytes: initialized
  std::vector<Group> groups;        // waiting groups of this warp
  Counts counts;
  uint64_t budget = 0;              // warp instructions left before a runaway is declared
  bool finished = false;
  struct Timeline* clock = nullptr; // while costs are being recorded (timing.h)

  Reg& reg(int slot) { return registers[slot]; }
  // Stops the launch with a finding (kind, detail) at the current instruction and lane.
  [[noreturn]] void fault(const std::string& kind, const std::string& detail, int lane);
  // Notes a finding and goes on.
  void note(const std::string& kind, const std::string& detail, int lane);
};

struct Fault { Finding finding; };   // thrown by Warp::fault
struct Unknown { std::string what; };   // thrown where an instruction is reached that no family binds

struct Block {
  struct Launch* launch = nullptr;
  uint32_t id[3] = {0, 0, 0};
  uint8_t* shared = nullptr;          // static and dynamic shared memory; generic addresses are host pointers
  uint64_t shared_bytes = 0;          // with what is reserved
  std::vector<Warp> warps;
  std::vector<uint8_t> shared_written;   // a flag a byte: initialized
  int threads = 0;
  const std::vector<Block*>* cluster = nullptr;   // the blocks of its cluster, by rank
  int rank = 0;                          // within the cluster
  bool finished = false;
  uint32_t met = 0;                      // barriers of its cluster that all blocks have come to
  struct Order* order = nullptr;         // null: races are not checked (races.h)
  uint32_t suspects = 0;                 // lanes whose current access may race
  std::shared_ptr<struct Copies> copies; // asynchronous ones (copies.h); null until there is one
  int under_way = 0;                     // of those that write to its shared memory, or read it
};

// What hardware does not promise, drawn for each launch: a kernel that acts on it takes another way each time.
struct Draws {
  uint64_t seed = 0;
  uint64_t choice = 0;                               // the seed of `most_blocks`: the same for all launches
  uint32_t multiprocessors = 132, warp_slots = 64;   // of the GPU; warps that one multiprocessor holds
  uint32_t most_blocks = 0;                          // run some of them only, where blocks do not wait for each other; 0: all
  uint32_t inexact = 0;                              // how approximate functions err (inexact.cpp); 0: as they always do
  bool skips = false;                                // results count for nothing: some instructions do nothing (bind.cpp)
  bool stale = false;                                // strong reads may return what was there before (overwritten.h)
  bool unordered = false;                            // races are not looked for, which takes six times the memory accessed
  bool in_order = true;                              // blocks that wait for each other take long turns, the first one first
  uint64_t most_work = 0;                            // of one launch, in units of Launch::executed; then it ends. 0: any
};

// A well mixed number that depends on every bit of both.
inline uint64_t mixed(uint64_t seed, uint64_t x) {
  x = (x + seed) * 0x9e3779b97f4a7c15ull;
  x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
  x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
  return x ^ x >> 32;
}

struct Launch {
  const Module* module = nullptr;
  const Function* function = nullptr;
  uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  uint64_t dynamic_shared = 0;
  std::vector<uint8_t> parameters;
  Memory* memory = nullptr;
  uint64_t budget = 0;
  std::mutex lock;                    // findings and counts
  std::vector<Finding> findings;
  Counts counts;
  std::atomic<bool> stopped{false};
  struct Messages* messages = nullptr;   // between blocks (races.h); null: races are not checked
  uint32_t cluster[3] = {1, 1, 1};       // blocks that run together
  uint64_t workspace = 0;                // of a cooperative launch: where its blocks count who has come
  uint32_t running_from = 0;             // serial number of the first block that may still run when this launch
                                         // starts: it depends programmatically on the one before; 0: on none
  std::string before;                    // the kernel that was launched before
  int grain = 0;                         // of the tags of memory: no access is smaller than 1 << grain bytes
  Draws draws;
  uint64_t grid_id = 0, clock_start = 0, timer_start = 0;   // cycles; nanoseconds
  std::atomic<bool> doubtful{false};     // some strong read might have returned an older value
  uint64_t resident = 0;                 // clusters that the GPU runs at once; 0: as many as there are
  std::atomic<uint64_t> executed{0};     // warp instructions, accesses to memory counted as kAccessWork
  std::atomic<bool> exhausted{false};    // it was stopped at `draws.most_work`
  struct Heap* heap = nullptr;           // malloc in kernels (heap.cpp)
  const struct TensorMaps* maps = nullptr;   // that copies may name (tensor_map.h)
  std::string printed;                // by printf
  std::string broken;                 // what failed in the emulator itself
  std::string unknown;                // the instruction that it was stopped at because no family binds it
  uint64_t blocks() const { return (uint64_t)grid[0] * grid[1] * grid[2]; }
  uint64_t together() const { return (uint64_t)cluster[0] * cluster[1] * cluster[2]; }
};

// Families of opcodes. Each returns true if it knows the opcode and has filled in inst.run, inst.klass and
// the slots. `slots` of operands are assigned already.
bool bind_integer(const Parsed& p, Inst& inst);
bool bind_float(const Parsed& p, Inst& inst);
bool bind_convert(const Parsed& p, Inst& inst);
bool bind_memory(const Parsed& p, Inst& inst);
bool bind_warp(const Parsed& p, Inst& inst);
bool bind_tensor(const Parsed& p, Inst& inst);
bool bind_control(const Parsed& p, Inst& inst, const Function& function);

// Parses a whole PTX text; throws std::runtime_error with the line on malformed input.
std::shared_ptr<Module> parse(const std::string& text);
uint32_t execute(Launch& launch, int threads);   // returns the serial number of its first block
void keep_finding(Launch& launch, const Finding& finding);
// Calls work(k) for k < threads, each on a thread of its own.
void on_threads(int threads, const std::function<void(int)>& work);

// Slots that every function has: special registers, filled in before a warp starts (clocks: when read).
enum Special : int { TidX, TidY, TidZ, NtidX, NtidY, NtidZ, CtaidX, CtaidY, CtaidZ, NctaidX, NctaidY, NctaidZ,
  LaneId, WarpId, NWarpId, SmId, NSmId, GridId, LaneMaskEq, LaneMaskLe, LaneMaskLt, LaneMaskGe, LaneMaskGt,
  Clock, Clock64, GlobalTimer, DynamicSmem, TotalSmem, ClusterRank, ClusterBlocks, RankX, RankY, RankZ,
  ClusterBlocksX, ClusterBlocksY, ClusterBlocksZ, ClusterX, ClusterY, ClusterZ, ClustersX, ClustersY, ClustersZ,
  WorkspaceLow, WorkspaceHigh, ClockHigh, TimerLow, TimerHigh, AggregateSmem, ReservedEnd, Explicit, Zero, SpecialCount };

// Calls body(lane) for every lane of `mask`.
template <typename Body>
inline void each_lane(uint32_t mask, Body body) {
  while (mask) {
    int lane = __builtin_ctz(mask);
    mask &= mask - 1;
    body(lane);
  }
}
// dst = f(lane) for active lanes of a 32-bit register: all lanes are computed, then blended, so that the
// compiler can use vector instructions. Only for f without side effects.
template <typename F>
inline void lanes32(Warp& w, int dst, F f) {
  if (dst < 0) return;
  Reg& d = w.reg(dst);
  if (w.active == kAllLanes) {
    for (int i = 0; i < kLanes; ++i) d.u32[i] = f(i);
  } else {
    each_lane(w.active, [&](int i) { d.u32[i] = f(i); });
  }
}
template <typename F>
inline void lanes64(Warp& w, int dst, F f) {
  if (dst < 0) return;
  Reg& d = w.reg(dst);
  if (w.active == kAllLanes) {
    for (int i = 0; i < kLanes; ++i) d.u64[i] = f(i);
  } else {
    each_lane(w.active, [&](int i) { d.u64[i] = f(i); });
  }
}
// Predicate result: the bits of active lanes are replaced.
template <typename F>
inline void lanes_predicate(Warp& w, int dst, F f) {
  if (dst < 0) return;
  uint32_t result = 0;
  for (int i = 0; i < kLanes; ++i) result |= (uint32_t)(f(i) ? 1 : 0) << i;
  Reg& d = w.reg(dst);
  d.mask = (d.mask & ~w.active) | (result & w.active);
}

}  // namespace ptx
