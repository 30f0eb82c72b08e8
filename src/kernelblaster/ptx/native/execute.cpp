// Running a launch: blocks on all cores, warps of a block in turns, lanes of a warp in groups.
#include <algorithm>
#include <stdexcept>
#include <thread>

#include "machine.h"

namespace ptx {

void Counts::add(const Counts& o) {
  static_assert(sizeof(Counts) % sizeof(uint64_t) == 0, "all fields are 64-bit counters");
  auto* mine = reinterpret_cast<uint64_t*>(this);
  auto* other = reinterpret_cast<const uint64_t*>(&o);
  for (size_t i = 0; i < sizeof(Counts) / sizeof(uint64_t); ++i) mine[i] += other[i];
}

namespace {

constexpr size_t kMostFindings = 64;
constexpr size_t kMostOfAKind = 4;
constexpr int kTurn = 20000;  // instructions of one warp before the next has its turn

Finding at(const Warp& w, const std::string& kind, const std::string& detail, int lane) {
  Finding f{kind, detail, w.function->name, w.function->code[w.pc].line, {0, 0, 0}, {0, 0, 0}};
  for (int d = 0; d < 3; ++d) {
    f.block[d] = w.block->id[d];
    f.thread[d] = w.thread[lane < 0 ? 0 : lane][d];
  }
  return f;
}

void keep(Launch& launch, const Finding& finding) {
  std::lock_guard<std::mutex> hold(launch.lock);
  size_t alike = 0;
  for (const auto& f : launch.findings) alike += f.kind == finding.kind && f.line == finding.line;
  if (alike < kMostOfAKind && launch.findings.size() < kMostFindings) launch.findings.push_back(finding);
}

void broadcast(Reg* registers, int slot, uint64_t bits) {
  for (int lane = 0; lane < kLanes; ++lane) registers[slot].u32[lane] = (uint32_t)bits;
  for (int lane = 0; lane < kLanes; ++lane) registers[slot + 1].u64[lane] = bits;
}

uint64_t symbol_address(const Launch& launch, const std::string& name) {
  auto own = launch.function->variables.find(name);
  if (own != launch.function->variables.end()) return own->second.address;
  auto global = launch.module->globals.find(name);
  if (global == launch.module->globals.end()) throw std::runtime_error("unknown symbol " + name);
  return global->second.address;
}

// One block from start to end.
class BlockRun {
 public:
  BlockRun(Launch& launch, uint64_t index) : launch_(launch) {
    const Function& f = *launch.function;
    block_.launch = &launch;
    block_.id[0] = (uint32_t)(index % launch.grid[0]);
    block_.id[1] = (uint32_t)(index / launch.grid[0] % launch.grid[1]);
    block_.id[2] = (uint32_t)(index / launch.grid[0] / launch.grid[1]);
    block_.threads = (int)(launch.block[0] * launch.block[1] * launch.block[2]);
    block_.shared_bytes = f.shared_bytes + launch.dynamic_shared;
    shared_.assign(block_.shared_bytes / 16 + 2, Chunk{});
    block_.shared = reinterpret_cast<uint8_t*>(shared_.data());
    block_.shared_written.assign(block_.shared_bytes, 0);
    int warps = (block_.threads + kLanes - 1) / kLanes;
    registers_.resize((size_t)warps * f.slots);
    local_.assign((size_t)warps * kLanes * f.local_bytes / 16 + 2, Chunk{});
    block_.warps.resize(warps);
    for (int i = 0; i < warps; ++i) prepare(block_.warps[i], i);
  }

  void run() {
    for (size_t left = block_.warps.size(); left > 0;) {
      bool moved = false;
      for (auto& warp : block_.warps) {
        if (warp.finished || launch_.stopped) continue;
        moved |= turn(warp);
        left -= warp.finished;
      }
      if (launch_.stopped) break;
      if (left > 0 && !moved && !release()) deadlock();
    }
    std::lock_guard<std::mutex> hold(launch_.lock);
    for (auto& warp : block_.warps) launch_.counts.add(warp.counts);
    launch_.counts.blocks += 1;
  }

 private:
  struct alignas(16) Chunk { uint8_t bytes[16] = {0}; };

  Launch& launch_;
  Block block_;
  std::vector<Reg> registers_;
  std::vector<Chunk> shared_, local_;
  int arrived_early_[16] = {0};

  void prepare(Warp& w, int index) {
    const Function& f = *launch_.function;
    w.block = &block_;
    w.function = &f;
    w.registers = &registers_[(size_t)index * f.slots];
    w.index = index;
    w.local = reinterpret_cast<uint8_t*>(local_.data()) + (size_t)index * kLanes * f.local_bytes;
    w.budget = launch_.budget;
    int lanes = std::min(kLanes, block_.threads - index * kLanes);
    w.alive = lanes == kLanes ? kAllLanes : (1u << lanes) - 1;
    w.groups.push_back({0, w.alive, nullptr});
    for (const auto& [slot, bits] : f.constants) broadcast(w.registers, slot, bits);
    for (const auto& [slot, name] : f.symbols) broadcast(w.registers, slot, symbol_address(launch_, name));
    for (int lane = 0; lane < kLanes; ++lane) {
      uint32_t t = (uint32_t)(index * kLanes + lane);
      const uint32_t* n = launch_.block;
      uint32_t tid[3] = {t % n[0], t / n[0] % n[1], t / n[0] / n[1]};
      for (int d = 0; d < 3; ++d) {
        w.thread[lane][d] = tid[d];
        w.reg(TidX + d).u32[lane] = tid[d];
        w.reg(NtidX + d).u32[lane] = n[d];
        w.reg(CtaidX + d).u32[lane] = block_.id[d];
        w.reg(NctaidX + d).u32[lane] = launch_.grid[d];
      }
      uint32_t one = 1u << lane;
      w.reg(LaneId).u32[lane] = (uint32_t)lane;
      w.reg(WarpId).u32[lane] = (uint32_t)index;
      w.reg(NWarpId).u32[lane] = (uint32_t)block_.warps.size();
      w.reg(SmId).u32[lane] = 0;
      w.reg(NSmId).u32[lane] = 1;
      w.reg(LaneMaskEq).u32[lane] = one;
      w.reg(LaneMaskLt).u32[lane] = one - 1;
      w.reg(LaneMaskLe).u32[lane] = (one - 1) | one;
      w.reg(LaneMaskGt).u32[lane] = ~((one - 1) | one);
      w.reg(LaneMaskGe).u32[lane] = ~(one - 1);
      w.reg(DynamicSmem).u32[lane] = (uint32_t)launch_.dynamic_shared;
      w.reg(TotalSmem).u32[lane] = (uint32_t)block_.shared_bytes;
    }
  }

  // Index of the waiting group that should run next: the one furthest behind. -1 if all are at barriers.
  static int next_group(const Warp& w) {
    int best = -1;
    for (size_t i = 0; i < w.groups.size(); ++i)
      if (!w.groups[i].barrier && (best < 0 || w.groups[i].pc < w.groups[best].pc)) best = (int)i;
    return best;
  }

  static int least_waiting_pc(const Warp& w) {
    int i = next_group(w);
    return i < 0 ? INT32_MAX : w.groups[i].pc;
  }

  static void park(Warp& w, int pc, uint32_t lanes, const Inst* barrier = nullptr) {
    if (!lanes) return;
    for (auto& g : w.groups)
      if (g.pc == pc && g.barrier == barrier) { g.lanes |= lanes; return; }
    w.groups.push_back({pc, lanes, barrier});
  }

  // Runs a warp until its turn is over, all its lanes wait at barriers, or it has finished. Returns
  // whether anything was executed.
  bool turn(Warp& w) {
    const Inst* code = w.function->code.data();
    int left = kTurn;
    while (left > 0) {
      int chosen = next_group(w);
      if (chosen < 0) break;
      int pc = w.groups[chosen].pc;
      uint32_t lanes = w.groups[chosen].lanes;
      w.groups.erase(w.groups.begin() + chosen);
      left = run_group(w, code, pc, lanes, left);
    }
    if (w.groups.empty()) w.finished = true;
    return left < kTurn;
  }

  int run_group(Warp& w, const Inst* code, int pc, uint32_t lanes, int left) {
    int meet = least_waiting_pc(w);
    while (left > 0) {
      if (pc >= meet) break;  // others are here, or further behind: let turn() choose again
      const Inst& inst = code[pc];
      uint32_t mask = lanes;
      if (inst.guard >= 0) {
        uint32_t guard = w.registers[inst.guard].mask;
        mask &= inst.guard_negated ? ~guard : guard;
      }
      w.pc = pc;
      --left;
      if (w.budget-- == 0) w.fault("runaway", "the instruction budget is used up: an endless loop?", __builtin_ctz(lanes));
      w.counts.warp_instructions[(int)inst.klass] += 1;
      w.counts.total_warp_instructions += 1;
      w.counts.thread_instructions += (uint64_t)__builtin_popcount(mask);
      if (inst.control == Control::None) {
        if (mask) {
          w.active = mask;
          inst.run(w, inst);
        }
        ++pc;
        continue;
      }
      if (inst.control == Control::Branch) {
        int target = (int)inst.imm[0];
        w.counts.branches += 1;
        if (mask == lanes) {
          pc = target;
        } else if (!mask) {
          ++pc;
        } else {
          w.counts.divergent_branches += 1;
          int here = std::min(target, pc + 1), there = std::max(target, pc + 1);
          bool taken_first = target < pc + 1;
          park(w, there, taken_first ? lanes & ~mask : mask);
          lanes = taken_first ? mask : lanes & ~mask;
          pc = here;
          meet = least_waiting_pc(w);
        }
        continue;
      }
      if (!mask) {
        ++pc;
        continue;
      }
      control(w, inst, pc, mask);
      lanes &= ~mask;
      ++pc;
      if (!lanes) return left;
      meet = least_waiting_pc(w);
    }
    park(w, pc, lanes);
    return left;
  }

  void control(Warp& w, const Inst& inst, int pc, uint32_t mask) {
    switch (inst.control) {
      case Control::Exit:
        w.alive &= ~mask;
        return;
      case Control::Trap:
        w.fault("trap", "the kernel executed " + inst.parsed->name(), __builtin_ctz(mask));
      case Control::Arrive:
        arrived_early_[barrier_id(w, inst, mask)] += __builtin_popcount(mask);
        park(w, pc + 1, mask);
        return;
      case Control::Barrier:
        w.counts.barriers += 1;
        for (const auto& g : w.groups)
          if (g.barrier && g.barrier != &inst && barrier_id(w, *g.barrier, g.lanes) == barrier_id(w, inst, mask))
            w.note("divergent-barrier", "lanes of one warp wait for one barrier at different places", __builtin_ctz(mask));
        park(w, pc + 1, mask, &inst);
        return;
      default:
        throw std::runtime_error("control");
    }
  }

  static int barrier_id(Warp& w, const Inst& inst, uint32_t lanes) {
    return inst.src[0] < 0 ? 0 : (int)(w.reg(inst.src[0]).u32[__builtin_ctz(lanes)] & 15);
  }

  // Opens every barrier at which all expected threads have arrived. Returns whether there was one.
  bool release() {
    bool opened = false;
    for (int id = 0; id < 16; ++id) {
      int waiting = 0, alive = 0, expected = -1, holds = 0, asked = 0;
      for (auto& w : block_.warps) {
        alive += __builtin_popcount(w.alive);
        for (auto& g : w.groups) {
          if (!g.barrier || barrier_id(w, *g.barrier, g.lanes) != id) continue;
          waiting += __builtin_popcount(g.lanes);
          if (g.barrier->src[1] >= 0) expected = (int)w.reg(g.barrier->src[1]).u32[__builtin_ctz(g.lanes)];
          if (g.barrier->src[2] >= 0) {
            uint32_t vote = w.reg(g.barrier->src[2]).mask;
            if (g.barrier->flag[0]) vote = ~vote;
            holds += __builtin_popcount(vote & g.lanes);
            asked += __builtin_popcount(g.lanes);
          }
        }
      }
      if (!waiting || waiting + arrived_early_[id] < (expected < 0 ? alive : std::min(expected, alive + arrived_early_[id]))) continue;
      arrived_early_[id] = 0;
      opened = true;
      for (auto& w : block_.warps) open(w, id, holds, asked);
    }
    return opened;
  }

  void open(Warp& w, int id, int holds, int asked) {
    std::vector<Group> waiting;
    for (auto& g : w.groups)
      if (g.barrier && barrier_id(w, *g.barrier, g.lanes) == id) waiting.push_back(g);
    for (auto& g : waiting) {
      const Inst& inst = *g.barrier;
      for (size_t i = 0; i < w.groups.size(); ++i)
        if (w.groups[i].barrier == &inst && w.groups[i].pc == g.pc) { w.groups.erase(w.groups.begin() + i); break; }
      park(w, g.pc, g.lanes);
      if (inst.dst[0] < 0) continue;
      Reg& d = w.reg(inst.dst[0]);
      bool all = holds == asked, any = holds > 0;
      if (inst.flag[1] == 0) each_lane(g.lanes, [&](int lane) { d.u32[lane] = (uint32_t)holds; });
      else d.mask = (d.mask & ~g.lanes) | ((inst.flag[1] == 1 ? all : any) ? g.lanes : 0);
    }
  }

  [[noreturn]] void deadlock() {
    for (auto& w : block_.warps)
      for (auto& g : w.groups)
        if (g.barrier) {
          w.pc = (int)(g.barrier - w.function->code.data());
          w.fault("deadlock", "threads wait at a barrier that the others never reach", __builtin_ctz(g.lanes));
        }
    throw std::runtime_error("deadlock without a barrier");
  }
};

}  // namespace

void Warp::fault(const std::string& kind, const std::string& detail, int lane) { throw Fault{at(*this, kind, detail, lane)}; }

void Warp::note(const std::string& kind, const std::string& detail, int lane) { keep(*block->launch, at(*this, kind, detail, lane)); }

bool bind_control(const Parsed& p, Inst& inst, const Function& function) {
  const std::string& op = p.op();
  inst.klass = Class::Control;
  if (op == "bra") {
    auto label = p.operands.empty() ? function.labels.end() : function.labels.find(p.operands[0].text);
    if (label == function.labels.end()) return false;
    inst.control = Control::Branch;
    inst.imm[0] = label->second;
    return true;
  }
  if (op == "exit" || op == "ret") return inst.control = Control::Exit, true;
  if (op == "trap" || op == "brkpt") return inst.control = Control::Trap, true;
  if (op != "bar" && op != "barrier") return false;
  if (p.has("warp") || p.has("cluster")) return false;
  inst.klass = Class::Barrier;
  size_t first = p.has("red") ? 1 : 0;
  if (p.operands.size() > first) inst.src[0] = source32(p.operands[first]);
  size_t rest = p.operands.size() > first ? p.operands.size() - first - 1 : 0;
  if (p.has("sync") || p.has("arrive")) {
    if (rest > 0) inst.src[1] = source32(p.operands[first + 1]);
    inst.control = p.has("sync") ? Control::Barrier : Control::Arrive;
    return true;
  }
  if (!p.has("red") || p.operands.size() < 3) return false;
  if (rest > 1) inst.src[1] = source32(p.operands[first + 1]);
  const Operand& vote = p.operands.back();
  inst.src[2] = vote.slot;
  inst.flag[0] = vote.negated;
  inst.flag[1] = p.has("popc") ? 0 : p.has("and") ? 1 : 2;
  inst.dst[0] = target(p.operands[0]);
  inst.control = Control::Barrier;
  return true;
}

void execute(Launch& launch, int threads) {
  uint64_t blocks = (uint64_t)launch.grid[0] * launch.grid[1] * launch.grid[2];
  std::atomic<uint64_t> next{0};
  std::string broken;
  auto work = [&] {
    for (uint64_t index; !launch.stopped && (index = next++) < blocks;) {
      try {
        BlockRun(launch, index).run();
      } catch (const Fault& fault) {
        keep(launch, fault.finding);
        launch.stopped = true;
      } catch (const std::exception& error) {
        std::lock_guard<std::mutex> hold(launch.lock);
        broken = error.what();
        launch.stopped = true;
      }
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads && (uint64_t)i < blocks; ++i) others.emplace_back(work);
  work();
  for (auto& thread : others) thread.join();
  if (!broken.empty()) throw std::runtime_error(broken);
}

}  // namespace ptx
