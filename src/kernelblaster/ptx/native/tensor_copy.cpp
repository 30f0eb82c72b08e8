// cp.async.bulk.tensor: boxes of a tensor, which a tensor map describes, between global and shared memory. What lies
// outside the tensor is filled where it is read, and left alone where it is written.
#include "bulk_copy.h"
#include "qualifiers.h"
#include "tensor_map.h"

namespace ptx {
namespace {

// Inst: flag[0..], imm[0..] the address of shared memory; flag[3]: into shared memory; flag[4]: im2col; flag[5] the operand
// of the map, flag[6] that of the mbarrier, flag[7] that of the offsets of im2col; src[2] the mask of a multicast.

const TensorMap& map_at(Warp& w, const Operand& o, int lane) {
  const Launch& launch = *w.block->launch;
  const uint64_t address = (o.slot < 0 ? 0 : w.reg(o.slot).u64[lane]) + (uint64_t)o.offset;
  const Window parameters = param_window(w);
  const Allocation* held = launch.memory->find(address);
  uint64_t words[3] = {0, 0, 0};
  if ((parameters.holds(address) ? address - parameters.start : address) % 64)
    w.fault("misaligned", "a tensor map at an address that is not a multiple of 64", lane);
  if (parameters.holds(address) && parameters.start + parameters.bytes - address >= sizeof words)
    memcpy(words, (const void*)address, sizeof words);
  else if (held && held->start + held->bytes - address >= sizeof words)
    memcpy(words, (const void*)address, sizeof words);
  auto found = launch.maps->known.find(words[2]);
  if (words[0] != launch.maps->mark[0] || words[1] != launch.maps->mark[1] || found == launch.maps->known.end())
    w.fault("invalid-argument", "what is copied by is no tensor map that cuTensorMapEncode made for this call", lane);
  return found->second;
}

int64_t number_of(Warp& w, const Operand& o, int lane, int bits) {
  const uint32_t value = w.reg(source32(o)).u32[lane];
  return bits == 16 ? (int64_t)(value & 0xffff) : (int64_t)(int32_t)value;
}

// Walks over the rows of a copy: body(row, position of its first element, in elements of each dimension).
template <typename Body>
void each_row(const TensorMap& m, const int64_t* first, const int64_t* offsets, Body body) {
  int64_t at[kMostDimensions];
  std::copy(first, first + m.rank, at);
  for (int64_t row = 0; row < m.rows(); ++row) {
    int64_t place[kMostDimensions];
    for (int d = 0; d < m.rank; ++d) place[d] = at[d] + (offsets ? offsets[d] : 0);
    body(row, place);
    for (int d = 1; d < m.rank; ++d) {
      at[d] += m.im2col && d == m.rank - 1 ? 1 : m.steps[d];
      const int64_t end = !m.im2col ? first[d] + m.box[d] : d == m.rank - 1 ? INT64_MAX : m.dims[d] + m.upper[d];
      if (at[d] < end) break;
      at[d] = m.im2col ? m.lower[d] : first[d];
    }
  }
}

// Where byte `at` of a box that begins at byte `begin` of shared memory lies: 16 bytes of a row change places.
uint64_t swizzled(const TensorMap& m, uint64_t begin, uint64_t at) {
  const uint64_t where = begin + at;
  const uint64_t bits = m.swizzle == 128 ? 7 : m.swizzle == 64 ? 3 : m.swizzle == 32 ? 1 : 0;
  return (where ^ ((where >> 7 & bits) << 4)) - begin;
}

// The pieces of one copy. Global memory is checked here; `shared` is where the box begins.
std::vector<Piece> pieces_of(Warp& w, const TensorMap& m, const int64_t* first, const int64_t* offsets, const SharedPlace& at,
                             uint8_t* shared, bool into_shared, int lane) {
  std::vector<Piece> pieces;
  const uint64_t size = m.element_bytes, row_bytes = (uint64_t)m.row_elements() * size;
  const int64_t step = m.im2col ? 1 : m.steps[0];
  each_row(m, first, offsets, [&](int64_t row, const int64_t* place) {
    bool inside = true;
    uint64_t start = m.address;
    for (int d = 1; d < m.rank; ++d) {
      inside &= place[d] >= 0 && place[d] < m.dims[d];
      start += (uint64_t)place[d] * m.strides[d];
    }
    for (uint64_t done = 0; done < row_bytes;) {
      // As much as lies side by side at both ends: an element, or up to the next 16 bytes of the row.
      const int64_t x = place[0] + (int64_t)(done / size) * step;
      const bool there = inside && x >= 0 && x < m.dims[0];
      uint64_t bytes = step == 1 ? 16 - done % 16 : size;
      if (step == 1 && x < 0) bytes = std::min<uint64_t>(bytes, (uint64_t)-x * size);
      if (there && step == 1) bytes = std::min<uint64_t>(bytes, (uint64_t)(m.dims[0] - x) * size);
      uint8_t* here = shared + swizzled(m, at.offset, (uint64_t)row * row_bytes + done);
      if (there) {
        const uint64_t address = start + (uint64_t)x * size, unit = (address | bytes) % 16 ? size : 16;
        uint8_t* far = bulk_global(w, address, (uint32_t)bytes, (uint32_t)unit, !into_shared, lane);
        pieces.push_back(into_shared ? Piece{here, far, (uint32_t)bytes, 0} : Piece{far, here, (uint32_t)bytes, 0});
      } else if (into_shared) {
        pieces.push_back({here, nullptr, (uint32_t)bytes, m.nan_outside ? (uint32_t)size : 0});
      }
      done += bytes;
    }
  });
  return pieces;
}

struct Box { const TensorMap& map; int64_t first[kMostDimensions], offsets[kMostDimensions]; uint32_t bytes; };

Box box_of(Warp& w, const Inst& i, int lane) {
  const Operand& named = i.parsed->operands[i.flag[5]];
  Box box{map_at(w, named, lane), {0}, {0}, 0};
  const TensorMap& m = box.map;
  if ((int)named.parts.size() != m.rank) w.fault("invalid-argument", text("a copy of %d dimensions by a tensor map of %d", (int)named.parts.size(), m.rank), lane);
  if (m.im2col != (i.flag[4] != 0)) w.fault("invalid-argument", "a copy in another mode (tile, im2col) than that of its tensor map", lane);
  for (int d = 0; d < m.rank; ++d) box.first[d] = number_of(w, named.parts[(size_t)d], lane, 32);
  if (i.flag[7])
    for (int d = 1; d < m.rank - 1; ++d) box.offsets[d] = number_of(w, i.parsed->operands[i.flag[7]].parts[(size_t)d - 1], lane, 16);
  box.bytes = (uint32_t)(m.rows() * m.row_elements() * (int64_t)m.element_bytes);
  return box;
}

SharedPlace shared_end(Warp& w, const Inst& i, int lane) {
  Access a;
  a.lanes = 1u << lane;
  read_addresses(w, i, 0, a);
  const SharedPlace place = shared_place(w, a.at[lane], false, lane);
  if (place.offset % 128) w.fault("misaligned", "a copy by a tensor map from or to shared memory that is not aligned to 128 bytes", lane);
  return place;
}

void load_box(Warp& w, const Inst& i) {
  each_lane(w.active, [&](int l) {
    const Box box = box_of(w, i, l);
    const SharedPlace place = shared_end(w, i, l);
    const Operand& barrier = i.parsed->operands[i.flag[6]];
    const uint64_t at = barrier.slot < 0 ? (uint64_t)barrier.offset : w.reg(barrier.slot).u32[l] + (uint64_t)barrier.offset;
    const SharedPlace mbarrier = shared_place(w, at, false, l);
    const uint32_t ranks = i.src[2] < 0 ? 0 : w.reg(i.src[2]).u32[l] & 0xffff;
    for (Block* block : *w.block->cluster) {
      if (!(ranks ? ranks >> block->rank & 1 : block == place.block)) continue;
      const SharedPlace here{block, place.offset}, there = ranks ? SharedPlace{block, mbarrier.offset} : mbarrier;
      Copy copy;
      copy.block = block;
      copy.offset = place.offset;
      copy.to = bulk_shared(w, here, box.bytes, true, l);
      copy.pieces = pieces_of(w, box.map, box.first, box.map.im2col ? box.offsets : nullptr, here, copy.to, true, l);
      copy.bytes = copy.wanted = box.bytes;
      copy.lane = l;
      copy.bulk = true;
      copy.flushes = box.map.flushes;
      touch_barrier(w, there, l, Effect::Atomic);
      expect_delivery(there, {{start_copy(w, copy)}, 0, box.bytes});
    }
  });
}

void store_box(Warp& w, const Inst& i) {
  each_lane(w.active, [&](int l) {
    const Box box = box_of(w, i, l);
    const SharedPlace from = shared_end(w, i, l);
    check_proxy(w, from, box.bytes, l);
    Copy copy;
    uint8_t* here = bulk_shared(w, from, box.bytes, false, l);
    copy.pieces = pieces_of(w, box.map, box.first, nullptr, from, here, false, l);
    copy.reads = from.block;
    copy.reads_at = from.offset;
    copy.bytes = copy.wanted = box.bytes;
    if (copy.pieces.empty()) copy.bytes = copy.wanted = 0;   // all of it is outside
    copy.lane = l;
    copy.bulk = true;
    add_to_group(w, l, true, start_copy(w, copy));
  });
}

void nothing(Warp&, const Inst&) {}

bool numbers(const std::vector<Operand>& parts) {
  for (const Operand& o : parts)
    if (o.slot < 0 || o.predicate) return false;
  return !parts.empty();
}

}  // namespace

bool bind_tensor_copy(const Parsed& p, Inst& inst) {
  const auto& o = p.operands;
  inst.klass = Class::Async;
  if (p.has("prefetch")) return inst.run = nothing, true;
  const bool im2col = p.has("im2col"), multicast = p.has("multicast::cluster"), hint = p.has("L2::cache_hint");
  for (const std::string& part : p.parts)   // forms that only later GPUs have
    if (part.find("::gather") != std::string::npos || part.find("::scatter") != std::string::npos ||
        part.find("cta_group") != std::string::npos || part.find("im2col::") != std::string::npos)
      return false;
  inst.flag[4] = im2col || p.has("im2col_no_offs");
  const bool load = p.has("mbarrier::complete_tx::bytes");
  inst.flag[3] = load;
  inst.flag[5] = load ? 1 : 0;
  if (o.size() < 2 || !numbers(o[inst.flag[5]].parts) || !bind_address(o[load ? 0 : 1], inst, 0)) return false;
  if (!load) {
    inst.run = store_box;
    return p.has("bulk_group") && o.size() == 2u + hint;
  }
  if (o.size() != 3u + im2col + multicast + hint || o[2].kind != Operand::Address) return false;
  inst.flag[6] = 2;
  if (im2col) {
    inst.flag[7] = 3;
    if (!numbers(o[3].parts)) return false;
  }
  if (multicast) inst.src[2] = source32(o[3u + im2col]);
  inst.run = load_box;
  return true;
}

}  // namespace ptx
