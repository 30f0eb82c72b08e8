#include "copies.h"

#include "races.h"

namespace ptx {

CopyOf start_copy(Warp& w, const Copy& copy) {
  CopyOf started = std::make_shared<Copy>(copy);
  started->issuer = &w;
  started->line = w.function->code[w.pc].line;
  if (copy.block) {
    std::fill_n(copy.block->shared_written.begin() + (long)copy.offset, copy.bytes, kUnderWay);
    copy.block->under_way += 1;
  }
  return started;
}

void finish_copy(Copy& copy) {
  if (copy.done) return;
  copy.done = true;
  memcpy(copy.to, copy.from, copy.wanted);
  memset(copy.to + copy.wanted, 0, copy.bytes - copy.wanted);
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

void commit_copies(Warp& w, bool bulk) {
  if (!w.block->copies) return;
  each_lane(w.active, [&](int lane) {
    ThreadCopies& c = copies_of(w, lane, bulk);
    c.committed.push_back(std::move(c.open));
    c.open.clear();
  });
}

void await_copies(Warp& w, bool bulk, uint64_t still_running) {
  if (!w.block->copies) return;
  each_lane(w.active, [&](int lane) {
    ThreadCopies& c = copies_of(w, lane, bulk);
    while (c.committed.size() > still_running) {
      for (auto& copy : c.committed.front()) finish_copy(*copy);
      c.committed.pop_front();
    }
  });
}

void check_awaited(Warp& w, const Block& block, const Access& a, unsigned size, Effect effect) {
  const uint8_t* flags = block.shared_written.data();
  uint32_t early = 0;
  each_lane(a.lanes, [&](int l) { early |= (uint32_t)(memchr(flags + (a.at[l] & kOffset), kUnderWay, size) != nullptr) << l; });
  if (!early) return;
  int lane = __builtin_ctz(early);
  w.note("not-awaited", describe(effect, size, "shared", a.at[lane] & kOffset) +
         ", where an asynchronous copy is under way: nothing has waited for it", lane);
}

}  // namespace ptx
