// Running a block: warps in turns, lanes of a warp in groups.
#pragma once
#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "access.h"
#include "copies.h"
#include "frames.h"
#include "races.h"
#include "timing.h"

namespace ptx {

constexpr int kTurn = 20000;          // instructions of one warp before the next has its turn
constexpr int kShortTurn = 256;       // where a block does nothing but wait for others
constexpr int kManyPolls = 16;        // polls with no store between them: it waits
constexpr int kClusterBarrier = 16;   // beside a block's own sixteen
constexpr int kWarpBarrier = 17;

// One block: its warps take turns until all of them wait or have finished.
class BlockRun {
 public:
  BlockRun(Launch& launch, uint64_t number, int rank, const std::vector<Block*>& cluster, BlockTiming* timing)
      : launch_(launch), timing_(timing) {
    const Function& f = *launch.function;
    block_.launch = &launch;
    block_.cluster = &cluster;
    block_.rank = rank;
    const uint32_t *c = launch.cluster, *g = launch.grid;
    uint32_t within = (uint32_t)rank;
    for (int d = 0; d < 3; ++d) {
      block_.id[d] = (uint32_t)(number % (g[d] / c[d])) * c[d] + within % c[d];
      number /= g[d] / c[d];
      within /= c[d];
    }
    uint64_t index = ((uint64_t)block_.id[2] * g[1] + block_.id[1]) * g[0] + block_.id[0];
    block_.threads = (int)(launch.block[0] * launch.block[1] * launch.block[2]);
    block_.shared_bytes = kReservedShared + f.shared_bytes + launch.dynamic_shared;
    shared_.assign(block_.shared_bytes / 16 + 2, Chunk{});
    block_.shared = reinterpret_cast<uint8_t*>(shared_.data());
    block_.shared_written.assign(block_.shared_bytes, 0);
    int warps = (block_.threads + kLanes - 1) / kLanes;
    settle_on_multiprocessor(index, (uint32_t)warps);
    registers_.resize((size_t)warps * f.slots);
    local_.assign((size_t)warps * kLanes * f.stack_bytes() / 16 + 2, Chunk{});
    local_written_.assign((size_t)warps * kLanes * f.stack_bytes(), 0);
    block_.warps.resize(warps);
    if (launch.messages)
      order_ = std::make_unique<Order>(launch.messages->first_serial + (uint32_t)index, warps, block_.shared_bytes,
                                       launch.grain, launch.together() > 1);
    block_.order = order_.get();
    if (timing) clocks_.resize(warps);
    for (int i = 0; i < warps; ++i) prepare(block_.warps[i], i);
  }

  Block& block() { return block_; }
  // In the last round some warp did more than to poll: it computed, wrote, or left a barrier.
  bool advanced() const { return advanced_; }

  // A turn of at most so many instructions for every warp, or where all of them wait, the opening of their barriers.
  // Returns whether anything was executed.
  bool round(int most) {
    bool moved = false, waiting = false, polled = false;
    if (polling_) most = std::min(most, kShortTurn);
    advanced_ = false;
    for (auto& warp : block_.warps) {
      if (warp.finished || launch_.stopped) continue;
      const bool executed = turn(warp, most), waits = !warp.finished && warp.polls >= kManyPolls - 1;
      moved |= executed;
      advanced_ |= executed && !waits;
      waiting |= !warp.finished;
      polled |= waits;
    }
    block_.finished = !waiting;
    if (!waiting && order_) check_visits(block_);
    if (!waiting && block_.copies) finish_bulk_copies();
    polling_ = polled;
    if (!advanced_ && waiting) advanced_ = release();
    return moved || advanced_;
  }

  void close() {
    double end = 0;
    for (auto& clock : clocks_) end = std::max(end, clock.now);
    if (timing_) timing_->close(end);
    std::lock_guard<std::mutex> hold(launch_.lock);
    for (auto& warp : block_.warps) launch_.counts.add(warp.counts);
    launch_.counts.blocks += 1;
  }

  // Lanes that wait for the cluster go on, those for which all others have come. Returns whether there were any.
  bool pass_cluster(double last) {
    bool passed = false;
    for (auto& w : block_.warps) {
      for (size_t i = w.groups.size(); i-- > 0;) {
        Group g = w.groups[i];
        if (!g.barrier || g.barrier->control != Control::ClusterWait || g.lanes & ~w.passed) continue;
        w.groups.erase(w.groups.begin() + (long)i);
        w.passed &= ~g.lanes;
        park(w, g.frame, g.pc, g.lanes);
        if (order_) acquire_from_cluster(w);
        if (w.clock) w.clock->now = w.clock->latest = std::max(w.clock->now, last + timing_->model->barrier_latency);
        passed = true;
      }
    }
    return passed;
  }

  [[noreturn]] void deadlock() {
    for (auto& w : block_.warps)
      for (auto& g : w.groups)
        if (g.barrier) {
          enter(w, g.frame);
          w.pc = (int)(g.barrier - w.function->code.data());
          w.fault("deadlock", "threads wait at a barrier that the others never reach", __builtin_ctz(g.lanes));
        }
    throw std::runtime_error("deadlock without a barrier");
  }

  // The same where threads poll, and nobody is left to write what they wait for.
  [[noreturn]] void deadlock(const std::string& why) {
    for (auto& w : block_.warps)
      for (auto& g : w.groups)
        if (!g.barrier) {
          enter(w, g.frame);
          w.pc = g.pc;
          w.fault("deadlock", why, __builtin_ctz(g.lanes));
        }
    deadlock();
  }

 private:
  struct alignas(16) Chunk { uint8_t bytes[16] = {0}; };

  Launch& launch_;
  BlockTiming* timing_;
  std::vector<Timeline> clocks_;
  Block block_;
  std::vector<Reg> registers_;
  std::vector<Chunk> shared_, local_;
  std::vector<uint8_t> local_written_;
  int arrived_early_[16] = {0};
  bool polling_ = false, advanced_ = false;
  uint32_t multiprocessor_ = 0, first_slot_ = 0;
  std::unique_ptr<Order> order_;

  void prepare(Warp& w, int index) {
    const Function& f = *launch_.function;
    w.block = &block_;
    w.frames.push_back(std::make_shared<Frame>());
    w.frames[0]->function = &f;
    w.frames[0]->registers = &registers_[(size_t)index * f.slots];
    enter(w, w.frames[0].get());
    w.index = index;
    w.local = reinterpret_cast<uint8_t*>(local_.data()) + (size_t)index * kLanes * f.stack_bytes();
    w.local_written = local_written_.data() + (size_t)index * kLanes * f.stack_bytes();
    w.budget = launch_.budget;
    if (timing_) {
      w.clock = &clocks_[(size_t)index];
      w.clock->block = timing_;
      w.clock->ready.resize((size_t)f.slots);
    }
    int lanes = std::min(kLanes, block_.threads - index * kLanes);
    w.alive = lanes == kLanes ? kAllLanes : (1u << lanes) - 1;
    w.groups.push_back({0, w.alive, nullptr, w.frame});
    fill_registers(launch_, *w.frame);
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
      w.reg(WarpId).u32[lane] = (first_slot_ + (uint32_t)index) % launch_.draws.warp_slots;
      w.reg(NWarpId).u32[lane] = launch_.draws.warp_slots;
      w.reg(SmId).u32[lane] = multiprocessor_;
      w.reg(NSmId).u32[lane] = launch_.draws.multiprocessors;
      w.reg(GridId).u64[lane] = launch_.grid_id;
      w.reg(LaneMaskEq).u32[lane] = one;
      w.reg(LaneMaskLt).u32[lane] = one - 1;
      w.reg(LaneMaskLe).u32[lane] = (one - 1) | one;
      w.reg(LaneMaskGt).u32[lane] = ~((one - 1) | one);
      w.reg(LaneMaskGe).u32[lane] = ~(one - 1);
      w.reg(DynamicSmem).u32[lane] = (uint32_t)launch_.dynamic_shared;
      w.reg(TotalSmem).u32[lane] = (uint32_t)(block_.shared_bytes - kReservedShared);
      w.reg(AggregateSmem).u32[lane] = (uint32_t)block_.shared_bytes;
      w.reg(ReservedEnd).u32[lane] = (uint32_t)kReservedShared;
      w.reg(Zero).u64[lane] = 0;
      w.reg(ClusterRank).u32[lane] = (uint32_t)block_.rank;
      w.reg(ClusterBlocks).u32[lane] = (uint32_t)launch_.together();
      for (int d = 0; d < 3; ++d) {
        const uint32_t size = launch_.cluster[d];
        w.reg(RankX + d).u32[lane] = block_.id[d] % size;
        w.reg(ClusterBlocksX + d).u32[lane] = size;
        w.reg(ClusterX + d).u32[lane] = block_.id[d] / size;
        w.reg(ClustersX + d).u32[lane] = launch_.grid[d] / size;
      }
      w.reg(WorkspaceLow).u32[lane] = (uint32_t)launch_.workspace;
      w.reg(WorkspaceHigh).u32[lane] = (uint32_t)(launch_.workspace >> 32);
    }
    w.reg(Explicit).mask = launch_.together() > 1 ? kAllLanes : 0;
  }

  // Blocks are spread over the multiprocessors in an order that is drawn; later ones take further warp slots.
  void settle_on_multiprocessor(uint64_t index, uint32_t warps) {
    const Draws& d = launch_.draws;
    uint32_t step = (uint32_t)(mixed(d.seed, 1) % d.multiprocessors) | 1;
    while (std::gcd(step, d.multiprocessors) != 1) step += 2;
    multiprocessor_ = (uint32_t)((index * step + mixed(d.seed, 2)) % d.multiprocessors);
    const uint64_t wave = index / d.multiprocessors;
    first_slot_ = wave ? (uint32_t)(wave * warps + mixed(d.seed, index) % 4) % d.warp_slots : 0;
  }

  // Index of the waiting group that should run next: the one furthest behind, which is inside a call that
  // others have left or not begun; one that waits for lanes that are on their way, last. -1 if all are at barriers.
  static int next_group(const Warp& w) {
    int best = -1;
    auto behind = [](const Group& a, const Group& b) {
      if (a.early != b.early) return b.early;
      return a.frame->depth != b.frame->depth ? a.frame->depth > b.frame->depth : a.pc < b.pc;
    };
    for (size_t i = 0; i < w.groups.size(); ++i)
      if (!w.groups[i].barrier && (best < 0 || behind(w.groups[i], w.groups[best]))) best = (int)i;
    return best;
  }

  // Where the running group meets others.
  static int least_waiting_pc(const Warp& w) {
    int least = INT32_MAX;
    for (const auto& g : w.groups)
      if (!g.barrier && !g.early && g.frame == w.frame) least = std::min(least, g.pc);
    return least;
  }

  static void park(Warp& w, Frame* frame, int pc, uint32_t lanes, const Inst* barrier = nullptr, bool early = false) {
    if (!lanes) return;
    for (auto& g : w.groups)
      if (g.pc == pc && g.barrier == barrier && g.frame == frame) { g.lanes |= lanes, g.early = early; return; }
    w.groups.push_back({pc, lanes, barrier, frame, early});
  }

  // Whether lanes that a .sync instruction names are on their way to it: hardware would wait for them. A loop's join may
  // lie before its body, so that they are not always those furthest behind.
  static bool comes_early(Warp& w, const Inst& inst, uint32_t mask, uint32_t lanes) {
    const uint32_t* masks = w.reg(inst.src[inst.members]).u32;
    uint32_t named = 0;
    each_lane(mask, [&](int lane) { named |= masks[lane]; });
    if (!(named & w.alive & ~lanes)) return false;
    for (const auto& g : w.groups)
      if (!g.barrier && !g.early && (g.lanes & named)) return true;
    return false;
  }
  static bool others_wait_at(const Warp& w, int pc) {
    for (const auto& g : w.groups)
      if (g.early && g.pc == pc && g.frame == w.frame) return true;
    return false;
  }

  // Runs a warp until its turn is over, all its lanes wait at barriers, or it has finished. Returns
  // whether anything was executed.
  bool turn(Warp& w, int most) {
    int left = most;
    const uint64_t executed = w.counts.total_warp_instructions, accesses = w.counts.accesses();
    while (left > 0) {
      int chosen = next_group(w);
      if (chosen < 0 && open_warp_sync(w)) continue;
      if (chosen < 0) break;
      int pc = w.groups[chosen].pc;
      uint32_t lanes = w.groups[chosen].lanes;
      const bool alone = w.groups[chosen].early;   // nobody else comes
      enter(w, w.groups[chosen].frame);
      w.groups.erase(w.groups.begin() + chosen);
      left = run_group(w, w.function->code.data(), pc, lanes, left, alone ? pc : -1);
    }
    if (w.groups.empty()) w.finished = true;
    const uint64_t done =
        w.counts.total_warp_instructions - executed + kAccessWork * (w.counts.accesses() - accesses);
    if (launch_.executed.fetch_add(done, std::memory_order_relaxed) + done > launch_.draws.most_work && launch_.draws.most_work)
      launch_.exhausted = launch_.stopped = true;
    return left < most;
  }

  // A warp that waits for others gives them their turn; the next poll ends its next turn, too.
  static void break_turn(Warp& w, int& left) {
    left = 0;
    w.polls = kManyPolls - 1;
  }

  // `alone`: where these lanes have waited for others in vain, or -1.
  int run_group(Warp& w, const Inst* code, int pc, uint32_t lanes, int left, int alone) {
    int meet = least_waiting_pc(w);
    while (left > 0) {
      if (pc >= meet) break;  // others are here, or further behind: let turn() choose again
      const Inst& inst = code[pc];
      uint32_t mask = lanes;
      if (inst.guard >= 0) {
        uint32_t guard = w.registers[inst.guard].mask;
        mask &= inst.guard_negated ? ~guard : guard;
      }
      if (inst.members >= 0 && mask && lanes != w.alive && pc != alone) {
        const bool meets = others_wait_at(w, pc);
        if (meets || comes_early(w, inst, mask, lanes)) {
          park(w, w.frame, pc, lanes, nullptr, !meets);
          return left;
        }
      }
      if (pc == alone) alone = -1;
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
        if (w.clock) w.clock->step(*w.function, pc, mask != 0);
        ++pc;
        continue;
      }
      if (w.clock) w.clock->step(*w.function, pc, mask != 0);
      if (inst.control == Control::Branch) {
        int target = (int)inst.imm[0];
        if (w.polls >= kManyPolls) break_turn(w, left);
        w.counts.branches += 1;
        if (mask == lanes) {
          pc = target;
        } else if (!mask) {
          ++pc;
        } else {
          w.counts.divergent_branches += 1;
          int here = std::min(target, pc + 1), there = std::max(target, pc + 1);
          bool taken_first = target < pc + 1;
          park(w, w.frame, there, taken_first ? lanes & ~mask : mask);
          lanes = taken_first ? mask : lanes & ~mask;
          pc = here;
          meet = least_waiting_pc(w);
        }
        continue;
      }
      if (!mask || (inst.control == Control::WarpSync && converged(w, inst, mask))) {
        ++pc;
        continue;
      }
      control(w, inst, pc, mask);
      lanes &= ~mask;
      ++pc;
      if (!lanes) return left;
      if (inst.control == Control::Call || inst.control == Control::Return) break;   // those are further behind
      meet = least_waiting_pc(w);
    }
    park(w, w.frame, pc, lanes);
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
        arrived_early_[barrier_id(w.registers, inst, mask)] += __builtin_popcount(mask);
        if (order_) order_->arrive(w.index, barrier_id(w.registers, inst, mask));
        park(w, w.frame, pc + 1, mask);
        return;
      case Control::WarpSync:
        park(w, w.frame, pc + 1, mask, &inst);
        return;
      case Control::ClusterArrive:
        if ((w.arrived | w.passed) & mask)
          w.fault("divergent-barrier", "a thread comes to the cluster's barrier a second time before it has waited", __builtin_ctz(mask));
        w.arrived |= mask;
        w.arrivals += 1;
        if (order_) publish_to_cluster(w, mask, inst.parsed->has("relaxed"));
        park(w, w.frame, pc + 1, mask);
        return;
      case Control::ClusterWait:
        if (mask & ~(w.arrived | w.passed))
          w.fault("divergent-barrier", "a thread waits for the cluster's barrier without having come to it", __builtin_ctz(mask));
        w.counts.barriers += 1;
        park(w, w.frame, pc + 1, mask, &inst);
        return;
      case Control::Barrier:
        w.counts.barriers += 1;
        for (const auto& g : w.groups)
          if (g.barrier && g.barrier != &inst && barrier_id(g.frame->registers, *g.barrier, g.lanes) == barrier_id(w.registers, inst, mask))
            w.note("divergent-barrier", "lanes of one warp wait for one barrier at different places", __builtin_ctz(mask));
        park(w, w.frame, pc + 1, mask, &inst);
        return;
      case Control::Call:
        for (uint32_t rest = mask; rest;) {   // lanes that call the same function call it together
          const Function& callee = callee_of(w, inst, __builtin_ctz(rest));
          uint32_t same = 0;
          each_lane(rest, [&](int lane) { same |= (uint32_t)(&callee_of(w, inst, lane) == &callee) << lane; });
          park(w, call(w, inst, callee, pc, same), 0, same);
          rest &= ~same;
        }
        return;
      case Control::Return:
        each_lane(mask, [&](int lane) {
          bring_results(w, *w.frame, lane);
          park(w, w.frame->caller[lane], w.frame->back[lane], 1u << lane);
        });
        return;
      default:
        throw std::runtime_error("control");
    }
  }

  static int barrier_id(const Reg* registers, const Inst& inst, uint32_t lanes) {
    if (inst.control == Control::ClusterWait) return kClusterBarrier;
    if (inst.control == Control::WarpSync) return kWarpBarrier;
    return inst.src[0] < 0 ? 0 : (int)(registers[inst.src[0]].u32[__builtin_ctz(lanes)] & 15);
  }

  // What was to be copied to global memory is there when the grid has ended, awaited or not.
  void finish_bulk_copies() {
    for (ThreadCopies& thread : block_.copies->bulk)
      for (size_t k = thread.head; k < thread.queue.size(); ++k) finish_copy(*thread.queue[k]);
  }

  // Whether all lanes that the member masks of these lanes name are here; they are in step then.
  static bool converged(Warp& w, const Inst& inst, uint32_t lanes) {
    const uint32_t* named = w.reg(inst.src[0]).u32;
    uint32_t all = 0;
    each_lane(lanes, [&](int lane) { all |= named[lane]; });
    if (all & w.alive & ~lanes) return false;
    meet_lanes(w, lanes, named);
    return true;
  }

  // Lanes go on whose __syncwarp() all lanes that they name have come to, be it at different places.
  bool open_warp_sync(Warp& w) {
    uint32_t waiting = 0, opened = 0, named[kLanes] = {0};
    for (auto& g : w.groups) {
      if (!g.barrier || g.barrier->control != Control::WarpSync) continue;
      waiting |= g.lanes;
      each_lane(g.lanes, [&](int lane) { named[lane] = g.frame->registers[g.barrier->src[0]].u32[lane]; });
    }
    each_lane(waiting, [&](int lane) { opened |= (uint32_t)!(named[lane] & w.alive & ~waiting) << lane; });
    if (!opened) return false;
    meet_lanes(w, opened, named);
    for (size_t i = w.groups.size(); i-- > 0;) {
      Group g = w.groups[i];
      if (!g.barrier || g.barrier->control != Control::WarpSync || !(g.lanes & opened)) continue;
      w.groups.erase(w.groups.begin() + (long)i);
      park(w, g.frame, g.pc, g.lanes & opened);
      park(w, g.frame, g.pc, g.lanes & ~opened, g.barrier);
    }
    return true;
  }

  // What waits at one barrier in some warps: lanes, warps, how many threads the barrier takes (-1: all), and their votes.
  struct Waiting {
    int lanes = 0, expected = -1, holds = 0, asked = 0;
    uint32_t warps = 0;
  };

  Waiting waiting_at(int id, uint32_t among) {
    Waiting all;
    for (auto& w : block_.warps) {
      if (!(among >> w.index & 1)) continue;
      for (auto& g : w.groups) {
        if (!g.barrier || barrier_id(g.frame->registers, *g.barrier, g.lanes) != id) continue;
        const Reg* registers = g.frame->registers;
        all.lanes += __builtin_popcount(g.lanes);
        all.warps |= 1u << w.index;
        if (g.barrier->src[1] >= 0) all.expected = (int)registers[g.barrier->src[1]].u32[__builtin_ctz(g.lanes)];
        if (g.barrier->src[2] >= 0) {
          uint32_t vote = registers[g.barrier->src[2]].mask;
          if (g.barrier->flag[0]) vote = ~vote;
          all.holds += __builtin_popcount(vote & g.lanes);
          all.asked += __builtin_popcount(g.lanes);
        }
      }
    }
    return all;
  }

  // Where more threads wait than a barrier takes: the warps that it takes first, beginning with a drawn one. On hardware
  // the first to come are; nobody knows which.
  Waiting first_taken(int id, const Waiting& all, int needed) {
    const int count = (int)block_.warps.size();
    const int start = (int)(mixed(launch_.draws.seed, 12 + (uint64_t)id) % (uint64_t)count);
    uint32_t chosen = 0;
    for (int k = 0, lanes = 0; k < count && lanes < needed; ++k) {
      const uint32_t warp = 1u << (start + k) % count;
      if (!(all.warps & warp)) continue;
      chosen |= warp;
      lanes += waiting_at(id, warp).lanes;
    }
    return waiting_at(id, chosen);
  }

  // Opens every barrier at which all expected threads have arrived. Returns whether there was one.
  bool release() {
    bool opened = false;
    int alive = 0;
    for (auto& w : block_.warps) alive += __builtin_popcount(w.alive);
    for (int id = 0; id < 16; ++id) {
      Waiting met = waiting_at(id, ~0u);
      const int early = arrived_early_[id], expected = met.expected;
      if (!met.lanes || met.lanes + early < (expected < 0 ? alive : std::min(expected, alive + early))) continue;
      if (expected > early && met.lanes + early > expected) met = first_taken(id, met, expected - early);
      if (order_) order_->meet(met.warps, id, expected < 0 || met.lanes == block_.threads);
      arrived_early_[id] = 0;
      opened = true;
      if (timing_) meet_at(met.warps);
      for (auto& w : block_.warps)
        if (met.warps >> w.index & 1) open(w, id, met.holds, met.asked);
    }
    return opened;
  }

  // Nobody leaves a barrier before the last one has come.
  void meet_at(uint32_t warps) {
    double last = 0;
    for (auto& w : block_.warps)
      if (warps >> w.index & 1) last = std::max(last, w.clock->now);
    last += timing_->model->barrier_latency;
    for (auto& w : block_.warps)
      if (warps >> w.index & 1) w.clock->now = w.clock->latest = last;
  }

  void open(Warp& w, int id, int holds, int asked) {
    std::vector<Group> waiting;
    for (auto& g : w.groups)
      if (g.barrier && barrier_id(g.frame->registers, *g.barrier, g.lanes) == id) waiting.push_back(g);
    for (auto& g : waiting) {
      const Inst& inst = *g.barrier;
      for (size_t i = 0; i < w.groups.size(); ++i)
        if (w.groups[i].barrier == &inst && w.groups[i].frame == g.frame) { w.groups.erase(w.groups.begin() + i); break; }
      park(w, g.frame, g.pc, g.lanes);
      if (inst.dst[0] < 0) continue;
      Reg& d = g.frame->registers[inst.dst[0]];
      bool all = holds == asked, any = holds > 0;
      if (inst.flag[1] == 0) each_lane(g.lanes, [&](int lane) { d.u32[lane] = (uint32_t)holds; });
      else d.mask = (d.mask & ~g.lanes) | ((inst.flag[1] == 1 ? all : any) ? g.lanes : 0);
    }
  }
};

}  // namespace ptx
