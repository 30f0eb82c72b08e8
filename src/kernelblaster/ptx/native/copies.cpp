#include "copies.h"

#include "races.h"

#include <algorithm>

namespace ptx {

namespace {

void fill_piece(const Piece& p) {
  memset(p.to, p.nan_bytes ? 0xff : 0, p.bytes);
  for (uint32_t at = p.nan_bytes; p.nan_bytes && at <= p.bytes; at += p.nan_bytes) p.to[at - 1] = 0x7f;
}

void move_pieces(Copy& copy) {
  for (const Piece& p : copy.pieces) {
    if (!p.from) {
      fill_piece(p);
      continue;
    }
    memcpy(p.to, p.from, p.bytes);
    for (uint32_t at = 0; copy.flushes && at + 4 <= p.bytes; at += 4) {
      uint32_t bits;
      memcpy(&bits, p.to + at, 4);
      if (!(bits & 0x7f800000)) bits &= 0x80000000, memcpy(p.to + at, &bits, 4);
    }
  }
  copy.pieces.clear();
}

}  // namespace

Copy* start_copy(Warp& w, const Copy& copy) {
  if (!w.block->copies) w.block->copies = std::make_shared<Copies>();
  Copies& all = *w.block->copies;
  if (all.unused.empty()) all.pool.emplace_back(), all.unused.push_back(&all.pool.back());
  Copy* started = all.unused.back();
  all.unused.pop_back();
  *started = copy;
  started->issuer = &w;
  started->line = w.function->code[w.pc].line;
  if (copy.block) {
    std::fill_n(copy.block->shared_written.begin() + (long)copy.offset, copy.bytes, kUnderWay);
    copy.block->under_way += 1;
  }
  if (copy.reads) {
    std::fill_n(copy.reads->shared_written.begin() + (long)copy.reads_at, copy.bytes, kBeingRead);
    copy.reads->under_way += 1;
  }
  return started;
}

void finish_copy(Copy& copy) {
  if (copy.done) return;
  copy.done = true;
  if (copy.pieces.empty()) {
    memcpy(copy.to, copy.from, copy.wanted);
    memset(copy.to + copy.wanted, 0, copy.bytes - copy.wanted);
  } else {
    move_pieces(copy);
  }
  if (copy.reads) {
    auto flags = copy.reads->shared_written.begin() + (long)copy.reads_at;
    std::replace(flags, flags + copy.bytes, (uint8_t)kBeingRead, (uint8_t)kByThread);
    copy.reads->under_way -= 1;
  }
  if (!copy.block) return;
  copy.block->under_way -= 1;
  std::fill_n(copy.block->shared_written.begin() + (long)copy.offset, copy.bytes, copy.bulk ? kByCopy : kByThread);
  tag_write(copy);
}

ThreadCopies& copies_of(Warp& w, int lane, bool bulk) {
  Block& block = *w.block;
  if (!block.copies) block.copies = std::make_shared<Copies>();
  std::vector<ThreadCopies>& threads = bulk ? block.copies->bulk : block.copies->plain;
  if (threads.empty()) threads.resize(block.warps.size() * kLanes);
  return threads[(size_t)w.index * kLanes + (size_t)lane];
}

void add_to_group(Warp& w, int lane, bool bulk, Copy* copy) {
  ThreadCopies& thread = copies_of(w, lane, bulk);
  copy->group = thread.committed;
  thread.queue.push_back(copy);
}

void commit_copies(Warp& w, bool bulk) {
  if (!w.block->copies) return;
  each_lane(w.active, [&](int lane) { copies_of(w, lane, bulk).committed += 1; });
}

void await_copies(Warp& w, bool bulk, uint64_t still_running) {
  if (!w.block->copies) return;
  each_lane(w.active, [&](int lane) {
    ThreadCopies& c = copies_of(w, lane, bulk);
    while (c.head < c.queue.size() && c.queue[c.head]->group + still_running < c.committed) {
      Copy* copy = c.queue[c.head++];
      finish_copy(*copy);
      if (!copy->delivered) w.block->copies->unused.push_back(copy);
    }
    if (c.head == c.queue.size()) c.queue.clear(), c.head = 0;
  });
}

void check_awaited(Warp& w, const Block& block, const Access& a, unsigned size, Effect effect) {
  const uint8_t* flags = block.shared_written.data();
  uint64_t low = kOffset, high = 0;
  each_lane(a.lanes, [&](int l) { low = std::min(low, a.at[l] & kOffset), high = std::max(high, a.at[l] & kOffset); });
  auto note = [&](Written flag, const char* why) {
    if (!memchr(flags + low, flag, high - low + size)) return;
    uint32_t early = 0;
    each_lane(a.lanes, [&](int l) { early |= (uint32_t)(memchr(flags + (a.at[l] & kOffset), flag, size) != nullptr) << l; });
    if (!early) return;
    int lane = __builtin_ctz(early);
    w.note("not-awaited", describe(effect, size, "shared", a.at[lane] & kOffset) + why, lane);
  };
  note(kUnderWay, ", where an asynchronous copy is under way: nothing has waited for it");
  if (effect != Effect::Load) note(kBeingRead, ", which an asynchronous copy is still reading: nothing has waited for it");
}

}  // namespace ptx
