// Flags of written bytes: what was never written should not be read.
#include "access.h"

namespace ptx {

static bool all_written(uint64_t flags, unsigned size) {
  constexpr uint64_t ones = 0x0101010101010101ull;
  auto whole = [](uint64_t v) { return ((v - ones) & ~v & (ones << 7)) == 0; };
  switch (size) {
    case 2: return whole(read<uint16_t>(flags) | ones << 16);
    case 4: return whole(read<uint32_t>(flags) | ones << 32);
    case 8: return whole(read<uint64_t>(flags));
    case 16: return whole(read<uint64_t>(flags)) && whole(read<uint64_t>(flags + 8));
    default: return !memchr((const void*)flags, 0, size);
  }
}

static void set_written(uint64_t flags, unsigned size) {
  constexpr uint64_t ones = 0x0101010101010101ull;
  switch (size) {
    case 2: return write<uint16_t>(flags, (uint16_t)ones);
    case 4: return write<uint32_t>(flags, (uint32_t)ones);
    case 8: return write<uint64_t>(flags, ones);
    default: memset((void*)flags, 1, size);
  }
}

void track(Warp& w, const Access& a, unsigned size, uint64_t bias, const std::string* allocation, uint64_t start,
           Effect effect) {
  bool contiguous = a.contiguous(size);
  if (effect != Effect::Store) {
    bool complete = true;
    uint64_t span = a.high - a.low + size;
    bool whole = span <= 1024 && !memchr((const void*)(a.low + bias), 0, span);   // also what lies between lanes
    if (!whole) {
      for (int l = 0; l < kLanes; ++l) complete &= all_written(a.at[l] + bias, size);
    }
    if (!complete) {
      uint32_t missing = 0;
      each_lane(a.lanes, [&](int l) { missing |= (uint32_t)!all_written(a.at[l] + bias, size) << l; });
      int lane = __builtin_ctz(missing);
      std::string where = allocation ? text(" (byte %llu of allocation '%s')",
                                            (unsigned long long)(a.at[lane] - start), allocation->c_str()) : "";
      w.note("uninitialized", describe(effect, size, name_of(a.space), a.at[lane]) + where +
             ", which nothing has written", lane);
    }
  }
  if (effect != Effect::Load) {
    if (contiguous) memset((void*)(a.low + bias), 1, kLanes * size);
    else for (int l = 0; l < kLanes; ++l) set_written(a.at[l] + bias, size);
  }
}

void track_local(Warp& w, const Access& a, unsigned size, Effect effect) {
  uint64_t flags = (uint64_t)w.local_written, bytes = local_window(w, 0).bytes;
  uint32_t missing = 0;
  each_lane(a.lanes, [&](int l) {
    uint64_t flag = flags + (uint64_t)l * bytes + a.at[l];
    if (effect == Effect::Store) set_written(flag, size);
    else missing |= (uint32_t)!all_written(flag, size) << l;
  });
  if (!missing) return;
  int lane = __builtin_ctz(missing);
  w.note("uninitialized", describe(effect, size, "local", a.at[lane]) + ", which nothing has written", lane);
}

}  // namespace ptx
