// The clocks of warps, and the caches of blocks, while costs are being recorded.
#include "timing.h"

#include "access.h"

namespace ptx {

namespace {

constexpr uint64_t kLine = 128;
constexpr int kSector = 32;

// The distinct lines that 32 lanes touch, with the sectors of each.
struct Lines {
  uint64_t line[kLanes];
  uint8_t sectors[kLanes];
  int count = 0;

  explicit Lines(const Access& a) {
    for (int l = 0; l < kLanes; ++l) add(a.at[l]);
  }
  void add(uint64_t address) {
    uint64_t wanted = address / kLine;
    uint8_t bit = (uint8_t)(1u << (address % kLine / kSector));
    for (int i = count; i-- > 0;)
      if (line[i] == wanted) { sectors[i] |= bit; return; }
    line[count] = wanted;
    sectors[count++] = bit;
  }
};

int bits(uint8_t mask) { return __builtin_popcount(mask); }

const Allocation* allocation_of(Warp& w, Seen::Text& text, uint64_t address) {
  const Allocation*& last = text.allocations[(size_t)w.pc];
  if (!last || address - last->start >= last->bytes) last = w.block->launch->memory->find(address);
  return last;
}

}  // namespace

Cache::Cache(uint64_t bytes) : sets_(std::max<uint64_t>(1, bytes / (kLine * kWays))) { ways_.resize(sets_ * kWays); }

uint8_t Cache::access(uint64_t line, uint8_t wanted) {
  // Real caches hash addresses, so that powers of two do not meet in one set.
  Way* set = &ways_[(line ^ line >> 9 ^ line >> 17) % sets_ * kWays];
  Way* oldest = set;
  ++now_;
  for (int i = 0; i < kWays; ++i) {
    if (set[i].line == line) {
      uint8_t present = set[i].sectors & wanted;
      set[i].sectors |= wanted;
      set[i].used = now_;
      return present;
    }
    if (set[i].used < oldest->used) oldest = &set[i];
  }
  *oldest = {line, now_, wanted};
  return 0;
}

BlockTiming::BlockTiming(const Model& m, const Function& k, Seen& seen_, uint32_t number_, bool again)
    : model(&m), kernel(&k), seen(&seen_), cache(m.l1_bytes), number(number_), again_in_l2(again) {
  text = &text_of(k);
}

Seen::Text& BlockTiming::text_of(const Function& function) {
  if (text && &function == kernel) return *text;
  Seen::Text& found = seen->texts[&function];
  if (found.steps.empty()) {
    found.steps = steps_of(function);
    found.executed.resize(found.steps.size());
    found.allocations.resize(found.steps.size());
  }
  return found;
}

void BlockTiming::close(double end) {
  Costs& c = seen->costs;
  c.sampled += 1;
  c.latency += end;
  c.longest = std::max(c.longest, end);
  for (auto& [function, known] : seen->texts)
    for (size_t i = 0; i < known.executed.size(); ++i) {
      double times = (double)known.executed[i];
      known.executed[i] = 0;
      const PipeUse& u = known.steps[i].use;
      const float each[kPipes] = {u.issue, u.fma,  u.alu,    u.multiply, u.special, u.convert,
                                  u.fp64,  u.half, u.memory, u.shuffle,  u.tensor};
      for (int k = 0; k < kPipes && times > 0; ++k) c.pipes[k] += each[k] * times;
    }
}

void Timeline::step(const Function& function, int pc, bool any_lane) {
  Seen::Text& text = block->text_of(function);
  const Step& s = text.steps[(size_t)pc];
  text.executed[(size_t)pc] += 1;
  slots += s.use.issue;
  if (&function != block->kernel) {   // nothing is moved across a call: one instruction after the other
    latest = std::max(latest, now + slots) + std::max<double>(memory_latency, s.use.latency);
    memory_latency = 0;
    return close_stretch();
  }
  if (any_lane) {
    double start = now;
    for (int slot : s.reads) start = std::max(start, ready[(size_t)slot]);
    if (s.kind == Step::Load || s.kind == Step::Store)
      for (int k = 0; k < 3; ++k)
        if (s.spaces >> k & 1) start = std::max(start, stored[k]);
    if (s.kind == Step::Store)
      for (int k = 0; k < 3; ++k)
        if (s.spaces >> k & 1) stored[k] = start;
    double done = start + (s.kind == Step::Load ? std::max<double>(memory_latency, s.use.latency) : s.use.latency);
    latest = std::max(latest, start);
    for (int slot : s.writes) ready[(size_t)slot] = done;
    switch (s.kind) {
      case Step::Copy: copied = std::max(copied, start + memory_latency); break;
      case Step::CloseGroup:
        groups.push_back(copied);
        copied = 0;
        break;
      case Step::WaitGroup: {
        double until = s.open_groups ? 0 : copied;
        for (size_t i = 0; i + (size_t)s.open_groups < groups.size(); ++i) until = std::max(until, groups[i]);
        latest = std::max(latest, until);
        close_stretch();
        break;
      }
      default: break;
    }
  }
  memory_latency = 0;
  if (s.kind == Step::End) close_stretch();
}

void Timeline::close_stretch() {
  now = std::max(latest + 1, now + slots);
  latest = now;
  slots = 0;
}

void time_global(Warp& w, const Access& a, unsigned size, Effect effect) {
  BlockTiming& block = *w.clock->block;
  Seen& seen = *block.seen;
  Costs& costs = seen.costs;
  const Model& model = *block.model;
  Seen::Text& text = block.text_of(*w.function);
  const Allocation* allocation = allocation_of(w, text, a.low);
  if (!allocation) return;
  Traffic& traffic = costs.traffic[allocation->start];
  if (traffic.name.empty()) {
    traffic.name = allocation->name;
    traffic.bytes = allocation->bytes;
  }
  Lines lines(a);
  costs.lines += (uint64_t)lines.count;
  if (effect == Effect::Atomic) {
    costs.atomic_lanes += (uint64_t)__builtin_popcount(a.lanes);
    each_lane(a.lanes, [&](int l) { costs.hottest_atomic = std::max(costs.hottest_atomic, ++seen.atomics[a.at[l]]); });
  }
  // Sectors that a store does not fill take longer: the L2 cache keeps track of their bytes.
  uint64_t stored_bytes = (uint64_t)__builtin_popcount(a.lanes) * size;
  bool cached = effect == Effect::Load && text.steps[(size_t)w.pc].cached;
  double latency = 0;
  for (int i = 0; i < lines.count; ++i) {
    uint8_t wanted = lines.sectors[i];
    Seen::Line& line = seen.lines[lines.line[i]];
    if (line.block != block.number) line = {block.number, 0, 0, line.ever};
    if (effect == Effect::Store) {
      costs.store_sectors += (uint64_t)bits(wanted);
      traffic.stored += (uint64_t)bits(wanted & (uint8_t)~line.stored);
      line.stored |= wanted;
      line.ever |= wanted;
      continue;
    }
    if (effect == Effect::Atomic) {
      costs.atomic_sectors += (uint64_t)bits(wanted);
      latency = std::max(latency, model.l2_latency);
      continue;
    }
    uint8_t present = cached ? block.cache.access(lines.line[i], wanted) : 0;
    uint8_t missing = wanted & (uint8_t)~present;
    costs.l1_sectors += (uint64_t)bits(wanted);
    costs.l1_hits += (uint64_t)bits(present);
    latency = std::max(latency, model.l1_latency);
    if (!missing) continue;
    costs.missed_lines += 1;
    uint8_t known = line.loaded | line.stored;
    uint8_t again = missing & known, first = missing & (uint8_t)~known, alone = first & (uint8_t)~line.ever;
    traffic.again += (uint64_t)bits(again);
    traffic.first += (uint64_t)bits(first);
    traffic.alone += (uint64_t)bits(alone);
    line.loaded |= wanted;
    line.ever |= wanted;
    bool far = alone || (again && !block.again_in_l2);
    latency = std::max(latency, far ? model.dram_latency : model.l2_latency);
  }
  if (effect == Effect::Store) {
    int touched = 0;
    for (int i = 0; i < lines.count; ++i) touched += bits(lines.sectors[i]);
    if (stored_bytes < (uint64_t)touched * kSector * 3 / 4) costs.partial_lines += (uint64_t)lines.count;
  }
  w.clock->memory_latency = std::max(w.clock->memory_latency, latency);
}

void time_shared(Warp& w, int wavefronts) {
  double latency = w.clock->block->model->shared_latency + wavefronts - 1;
  w.clock->memory_latency = std::max(w.clock->memory_latency, latency);
}

}  // namespace ptx
