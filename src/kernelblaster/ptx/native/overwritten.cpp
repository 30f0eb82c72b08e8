#include "overwritten.h"

#include "races.h"

namespace ptx {
namespace {

constexpr uint32_t kMostReads = 256;   // of one block that return an older value, where they do

}  // namespace

void overwrite(Warp& w, const Access&, int lane, uint64_t address, const void* before, unsigned size) {
  Messages& m = *w.block->launch->messages;
  const Order& o = *w.block->order;
  Overwritten entry;
  memcpy(entry.before, before, size);
  entry.size = size;
  entry.tag = (uint64_t)o.serial << 32 | (uint64_t)o.now << kTimeShift | (uint64_t)w.index;
  entry.at = (w.function->code[w.pc].line & kLines) << 10 | (uint32_t)w.index << 5 | (uint32_t)lane;
  std::lock_guard<std::mutex> hold(m.lock);
  if (m.overwritten.size() < kMostPublications || m.overwritten.count(address)) m.overwritten[address] = std::move(entry);
}

bool recall(Warp& w, const Access& a, int lane, uint64_t address, void* value, unsigned size) {
  Launch& launch = *w.block->launch;
  Messages& m = *launch.messages;
  const Order& o = *w.block->order;
  Overwritten entry;
  {
    std::lock_guard<std::mutex> hold(m.lock);
    auto found = m.overwritten.find(address);
    if (found == m.overwritten.end() || found->second.size != size) return false;
    entry = found->second;
  }
  const bool own = (uint32_t)(entry.tag >> 32) == o.serial && (int)(entry.tag & 63) == w.index;
  if (own || !memcmp(entry.before, value, size)) return false;
  Access plain = a;                    // the order that a load of its own would have
  plain.strong = true;
  plain.space = a.space == Space::Cluster ? Space::Shared : a.space;
  if (o.orders(w, lane, {entry.tag, entry.at, true, {0}}, plain, Effect::Load)) return false;
  launch.doubtful = true;
  if (!launch.draws.stale) return false;
  std::lock_guard<std::mutex> hold(m.lock);
  auto found = m.overwritten.find(address);
  if (found == m.overwritten.end() || found->second.tag != entry.tag) return false;
  const uint64_t drawn = mixed(launch.draws.seed, address ^ (uint64_t)o.serial << 40);
  auto [left, first] = found->second.left.emplace(o.serial, 1u << drawn % 9);
  if (!left->second || left->second > kMostReads) return false;
  left->second -= 1;
  w.polled[w.pc % kPolledPlaces] = 0;   // one older value less to come: not a poll in vain
  memcpy(value, entry.before, size);
  return true;
}

}  // namespace ptx
