// The allocations that kernels may touch.
#include "access.h"

#include <algorithm>

namespace ptx {

std::atomic<uint64_t> generation{1};

void Memory::add(uint64_t start, uint64_t bytes, const std::string& name, bool tracked, bool read_only) {
  std::lock_guard<std::mutex> hold(lock);
  // The host allocator reuses addresses: freed ranges under the new one are history.
  auto it = live.upper_bound(start);
  if (it != live.begin()) --it;
  while (it != live.end() && it->first < start + std::max<uint64_t>(bytes, 1)) {
    bool overlaps = it->first + std::max<uint64_t>(it->second.bytes, 1) > start;
    it = overlaps && it->second.freed ? live.erase(it) : std::next(it);
  }
  Allocation& added = live[start];
  added.start = start;
  added.bytes = bytes;
  added.name = name;
  added.freed = false;
  added.read_only = read_only;
  added.written.assign(tracked ? bytes : 0, 0);
  added.tags.reset();
  ++generation;
}

// Freed allocations stay in `live`, marked, so that a later use can be named.
bool Memory::remove(uint64_t start) {
  std::lock_guard<std::mutex> hold(lock);
  auto it = live.find(start);
  if (it == live.end() || it->second.freed) return false;
  it->second.freed = true;
  std::vector<uint8_t>().swap(it->second.written);
  it->second.tags.reset();
  ++generation;
  return true;
}

void Memory::written(uint64_t start, uint64_t bytes) {
  Allocation* found = find(start);
  if (!found || found->written.empty()) return;
  uint64_t first = start - found->start;
  std::fill_n(found->written.begin() + (ptrdiff_t)first, std::min(bytes, found->bytes - first), (uint8_t)1);
}

Allocation* Memory::find(uint64_t address) {
  std::lock_guard<std::mutex> hold(lock);
  auto it = live.upper_bound(address);
  if (it == live.begin()) return nullptr;
  Allocation& found = std::prev(it)->second;
  return !found.freed && address - found.start < found.bytes ? &found : nullptr;
}

}  // namespace ptx
