// Instructions in which the lanes of a warp speak to each other: shuffles, votes, matches, reductions.
//
// The member mask of a .sync instruction is a register like any other: tiles of one warp
// (cooperative groups) execute the same instruction with different masks, each for itself.
#include <cstdio>

#include "access.h"

namespace ptx {
namespace {

std::string hexadecimal(uint32_t mask) {
  char text[16];
  snprintf(text, sizeof text, "0x%08x", mask);
  return text;
}

// Hardware would wait for the lanes that a member mask names. Here no more can come, so what they hold
// is undefined, and so is what a lane gets that leaves itself out of its own mask.
void check_members(Warp& w, int slot) {
  const uint32_t* mask = w.reg(slot).u32;
  uint32_t named = 0, common = kAllLanes;
  if (w.active == kAllLanes) {
    for (int i = 0; i < kLanes; ++i) named |= mask[i], common &= mask[i];
  } else {
    each_lane(w.active, [&](int i) { named |= mask[i], common &= mask[i]; });
  }
  meet_lanes(w, w.active, mask);
  int lane = __builtin_ctz(w.active);
  if (uint32_t absent = named & w.alive & ~w.active)
    w.note("divergent-warp-sync", "the member mask names lanes " + hexadecimal(absent) + " that do not take part", lane);
  if (!(w.active & ~common)) return;
  uint32_t outside = 0;
  each_lane(w.active, [&](int i) { outside |= (~mask[i] >> i & 1u) << i; });
  if (outside)
    w.note("divergent-warp-sync", "lanes " + hexadecimal(outside) + " are not in their own member mask", __builtin_ctz(outside));
}

// Calls body(team, members) for each set of active lanes that gave the same member mask. `members` are
// the lanes whose values count. Without a mask (the forms before .sync) the active lanes are one team.
template <typename Body>
void each_team(Warp& w, int slot, Body body) {
  if (slot < 0) return body(w.active, w.active);
  check_members(w, slot);
  const uint32_t* mask = w.reg(slot).u32;
  for (uint32_t rest = w.active; rest;) {
    uint32_t named = mask[__builtin_ctz(rest)], team = 0;
    for (int i = 0; i < kLanes; ++i) team |= (uint32_t)(mask[i] == named) << i;
    team &= rest;
    rest &= ~team;
    body(team, named & (w.alive | w.active));
  }
}

void put32(Warp& w, int dst, uint32_t lanes, uint32_t value) {
  if (dst < 0) return;
  uint32_t* d = w.reg(dst).u32;
  if (lanes == kAllLanes) {
    for (int i = 0; i < kLanes; ++i) d[i] = value;
  } else {
    each_lane(lanes, [&](int i) { d[i] = value; });
  }
}

void put_predicate(Warp& w, int dst, uint32_t lanes, bool value) {
  if (dst < 0) return;
  uint32_t& mask = w.reg(dst).mask;
  mask = value ? mask | lanes : mask & ~lanes;
}

enum class Shuffle { Up, Down, Butterfly, Index };

// src: value, lane or distance, clamp and segment mask, member mask (-1: the form before .sync)
template <Shuffle mode>
void shuffle(Warp& w, const Inst& i) {
  if (i.src[3] >= 0) check_members(w, i.src[3]);
  alignas(64) uint32_t value[kLanes], result[kLanes];
  alignas(64) int32_t within[kLanes];
  memcpy(value, w.reg(i.src[0]).u32, sizeof value);   // the destination may be the source
  const uint32_t* distance = w.reg(i.src[1]).u32;
  const uint32_t* limits = w.reg(i.src[2]).u32;
  for (int lane = 0; lane < kLanes; ++lane) {
    int b = distance[lane] & 31, clamp = limits[lane] & 31, segment = limits[lane] >> 8 & 31;
    int last = (lane & segment) | (clamp & ~segment);
    int from = mode == Shuffle::Up          ? lane - b
               : mode == Shuffle::Down      ? lane + b
               : mode == Shuffle::Butterfly ? lane ^ b
                                            : (lane & segment) | (b & ~segment);
    bool inside = mode == Shuffle::Up ? from >= last : from <= last;
    within[lane] = inside;
    // The mask changes nothing but tells the compiler that the index stays inside the array.
    result[lane] = value[(inside ? from : lane) & 31];
  }
  lanes32(w, i.dst[0], [&](int lane) { return result[lane]; });
  lanes_predicate(w, i.dst[1], [&](int lane) { return within[lane] != 0; });
}

enum class Vote { All, Any, Uniform, Ballot };

template <Vote mode>
void vote(Warp& w, const Inst& i) {
  uint32_t yes = w.reg(i.src[0]).mask;
  if (i.flag[0]) yes = ~yes;
  each_team(w, i.src[1], [&](uint32_t team, uint32_t members) {
    uint32_t votes = yes & members;
    if (mode == Vote::Ballot) return put32(w, i.dst[0], team, votes);
    bool all = votes == members, any = votes != 0;
    put_predicate(w, i.dst[0], team, mode == Vote::All ? all : mode == Vote::Any ? any : all || !any);
  });
}

template <typename T>
const T* values(Warp& w, int slot) {
  if constexpr (sizeof(T) == 8) return w.reg(slot).u64;
  else return w.reg(slot).u32;
}

template <typename T>
uint32_t equal_lanes(const T* value, T wanted) {
  uint32_t same = 0;
  for (int i = 0; i < kLanes; ++i) same |= (uint32_t)(value[i] == wanted) << i;
  return same;
}

template <typename T>
void match_any(Warp& w, const Inst& i) {
  T value[kLanes];
  memcpy(value, values<T>(w, i.src[0]), sizeof value);
  each_team(w, i.src[1], [&](uint32_t team, uint32_t members) {
    while (team) {
      uint32_t same = equal_lanes(value, value[__builtin_ctz(team)]);
      put32(w, i.dst[0], team & same, members & same);
      team &= ~same;
    }
  });
}

template <typename T>
void match_all(Warp& w, const Inst& i) {
  T value[kLanes];
  memcpy(value, values<T>(w, i.src[0]), sizeof value);
  each_team(w, i.src[1], [&](uint32_t team, uint32_t members) {
    bool all = !(members & ~equal_lanes(value, value[__builtin_ctz(team)]));
    put32(w, i.dst[0], team, all ? members : 0);
    put_predicate(w, i.dst[1], team, all);
  });
}

struct Add { static uint32_t join(uint32_t a, uint32_t b) { return a + b; } };
struct And { static uint32_t join(uint32_t a, uint32_t b) { return a & b; } };
struct Or { static uint32_t join(uint32_t a, uint32_t b) { return a | b; } };
struct Xor { static uint32_t join(uint32_t a, uint32_t b) { return a ^ b; } };
template <typename T> struct Min { static uint32_t join(uint32_t a, uint32_t b) { return (T)a < (T)b ? a : b; } };
template <typename T> struct Max { static uint32_t join(uint32_t a, uint32_t b) { return (T)a > (T)b ? a : b; } };

template <typename Op>
void reduce(Warp& w, const Inst& i) {
  uint32_t value[kLanes];
  memcpy(value, w.reg(i.src[0]).u32, sizeof value);
  each_team(w, i.src[1], [&](uint32_t team, uint32_t members) {
    uint32_t result = value[__builtin_ctz(team)];
    each_lane(members & ~(team & -team), [&](int lane) { result = Op::join(result, value[lane]); });
    put32(w, i.dst[0], team, result);
  });
}

void active_mask(Warp& w, const Inst& i) { put32(w, i.dst[0], w.active, w.active); }

// Which lane leads is the machine's choice; hardware takes the lowest.
void elect(Warp& w, const Inst& i) {
  each_team(w, i.src[0], [&](uint32_t team, uint32_t members) {
    uint32_t candidates = members & w.active;
    int leader = __builtin_ctz(candidates ? candidates : team);
    put32(w, i.dst[0], team, leader);
    put_predicate(w, i.dst[1], team, false);
    put_predicate(w, i.dst[1], team & 1u << leader, true);
  });
}

void nothing(Warp&, const Inst&) {}
void sleep(Warp& w, const Inst& i) { w.slept += (uint64_t)w.reg(i.src[0]).u32[__builtin_ctz(w.active)] * 17 / 10; }
void wait_for_launch(Warp& w, const Inst&) { end_dependence(w); }

Handler shuffle_handler(const std::string& mode) {
  if (mode == "up") return shuffle<Shuffle::Up>;
  if (mode == "down") return shuffle<Shuffle::Down>;
  if (mode == "bfly") return shuffle<Shuffle::Butterfly>;
  if (mode == "idx") return shuffle<Shuffle::Index>;
  return nullptr;
}

Handler vote_handler(const std::string& mode, const std::string& type) {
  if (mode == "ballot") return type == "b32" ? vote<Vote::Ballot> : nullptr;
  if (type != "pred") return nullptr;
  if (mode == "all") return vote<Vote::All>;
  if (mode == "any") return vote<Vote::Any>;
  if (mode == "uni") return vote<Vote::Uniform>;
  return nullptr;
}

Handler match_handler(const std::string& mode, const std::string& type) {
  if (mode == "any") return type == "b32" ? match_any<uint32_t> : type == "b64" ? match_any<uint64_t> : nullptr;
  if (mode == "all") return type == "b32" ? match_all<uint32_t> : type == "b64" ? match_all<uint64_t> : nullptr;
  return nullptr;
}

Handler reduce_handler(const std::string& operation, const std::string& type) {
  if (type == "b32") {
    if (operation == "and") return reduce<And>;
    if (operation == "or") return reduce<Or>;
    if (operation == "xor") return reduce<Xor>;
    return nullptr;
  }
  if (type != "u32" && type != "s32") return nullptr;
  bool is_signed = type == "s32";
  if (operation == "add") return reduce<Add>;
  if (operation == "min") return is_signed ? reduce<Min<int32_t>> : reduce<Min<uint32_t>>;
  if (operation == "max") return is_signed ? reduce<Max<int32_t>> : reduce<Max<uint32_t>>;
  return nullptr;
}

// A mistyped name parses as a label, which has no slot.
bool readable(const Parsed& p, size_t first, size_t count) {
  for (size_t k = first; k < first + count; ++k)
    if (p.operands[k].slot < 0 || p.operands[k].kind == Operand::Address) return false;
  return true;
}

// d{|p}, a, b, c{, membermask}
Handler bind_shuffle(const Parsed& p, Inst& inst) {
  bool sync = p.parts.size() == 4 && p.parts[1] == "sync";
  if (p.parts.size() != (sync ? 4 : 3) || p.type() != "b32") return nullptr;
  size_t sources = sync ? 4 : 3, count = p.operands.size();
  if (count != sources + 1 && count != sources + 2) return nullptr;
  if (!readable(p, count - sources, sources)) return nullptr;
  inst.dst[0] = target(p.operands[0]);
  if (count == sources + 2) inst.dst[1] = target(p.operands[1]);
  for (size_t k = 0; k < sources; ++k) inst.src[k] = source32(p.operands[count - sources + k]);
  if (sync) inst.members = 3;
  return shuffle_handler(p.parts[p.parts.size() - 2]);
}

// d, {!}a{, membermask}; CUB writes vote.ballot.sync
Handler bind_vote(const Parsed& p, Inst& inst) {
  bool sync = p.parts.size() == 4 && (p.parts[1] == "sync" || p.parts[2] == "sync");
  if (p.parts.size() != (sync ? 4 : 3) || p.operands.size() != (sync ? 3 : 2)) return nullptr;
  if (!p.operands[1].predicate || !readable(p, 1, sync ? 2 : 1)) return nullptr;
  inst.dst[0] = target(p.operands[0]);
  inst.src[0] = source32(p.operands[1]);
  inst.flag[0] = p.operands[1].negated;
  if (sync) inst.src[1] = source32(p.operands[2]), inst.members = 1;
  return vote_handler(p.parts[sync && p.parts[1] == "sync" ? 2 : 1], p.type());
}

// match.any d, a, membermask; match.all d{|p}, a, membermask
Handler bind_match(const Parsed& p, Inst& inst) {
  size_t count = p.operands.size();
  if (p.parts.size() != 4 || p.parts[2] != "sync" || count < 3 || count > (p.parts[1] == "all" ? 4 : 3)) return nullptr;
  if (!readable(p, count - 2, 2)) return nullptr;
  inst.dst[0] = target(p.operands[0]);
  if (count == 4) inst.dst[1] = target(p.operands[1]);
  const Operand& value = p.operands[count - 2];
  inst.src[0] = p.type() == "b64" ? source64(value) : source32(value);
  inst.src[1] = source32(p.operands[count - 1]);
  inst.members = 1;
  return match_handler(p.parts[1], p.type());
}

Handler bind_reduce(const Parsed& p, Inst& inst) {
  if (p.parts.size() != 4 || p.parts[1] != "sync" || p.operands.size() != 3 || !readable(p, 1, 2)) return nullptr;
  inst.dst[0] = target(p.operands[0]);
  inst.src[0] = source32(p.operands[1]);
  inst.src[1] = source32(p.operands[2]);
  inst.members = 1;
  return reduce_handler(p.parts[2], p.type());
}

// d|p, membermask
Handler bind_elect(const Parsed& p, Inst& inst) {
  if (p.parts.size() != 2 || p.parts[1] != "sync" || p.operands.size() != 3 || !readable(p, 2, 1)) return nullptr;
  inst.dst[0] = target(p.operands[0]);
  inst.dst[1] = target(p.operands[1]);
  inst.src[0] = source32(p.operands[2]);
  inst.members = 0;
  return elect;
}

Handler bind_other(const Parsed& p, Inst& inst) {
  const std::string& op = p.op();
  if (op == "activemask" && p.parts.size() == 2 && p.type() == "b32" && p.operands.size() == 1) {
    inst.dst[0] = target(p.operands[0]);
    return active_mask;
  }
  // Hints to the scheduler and the profiler: no effect that a kernel can see.
  if (op == "griddepcontrol") return p.has("wait") ? wait_for_launch : nothing;
  if (op == "nanosleep" && p.operands.size() == 1 && readable(p, 0, 1)) return inst.src[0] = source32(p.operands[0]), sleep;
  if (op == "setmaxnreg" || op == "pmevent") return nothing;
  return nullptr;
}

}  // namespace

bool bind_warp(const Parsed& p, Inst& inst) {
  const std::string& op = p.op();
  inst.klass = Class::Warp;
  inst.run = op == "shfl"    ? bind_shuffle(p, inst)
             : op == "vote"  ? bind_vote(p, inst)
             : op == "match" ? bind_match(p, inst)
             : op == "redux" ? bind_reduce(p, inst)
             : op == "elect" ? bind_elect(p, inst)
                             : bind_other(p, inst);
  return inst.run != nullptr;
}

}  // namespace ptx
