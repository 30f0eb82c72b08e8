// Matrices between registers and memory: ldmatrix, stmatrix, movmatrix, wmma.load and wmma.store.
#include <algorithm>
#include <cstdio>

#include "copies.h"
#include "races.h"
#include "tensor.h"

namespace ptx {
namespace {

// --- memory --------------------------------------------------------------------------------------
uint64_t address_in(Warp& w, const Operand& o, int lane) {
  if (o.slot < 0) return (uint64_t)o.offset;
  const Reg& base = w.reg(o.slot);
  if (o.width == 32) return base.u32[lane] + (uint32_t)o.offset;   // wraps, as 32-bit addresses do
  return base.u64[lane] + (uint64_t)o.offset;
}

struct Target { Space space; bool store; };

uint8_t* shared_span(Warp& w, uint64_t offset, uint64_t bytes, bool store, int lane) {
  Block& block = *w.block;
  if (offset > block.shared_bytes || bytes > block.shared_bytes - offset)
    w.fault("out-of-bounds", "shared memory has " + std::to_string(block.shared_bytes) + " bytes, offset " +
            std::to_string((int64_t)offset) + " is outside", lane);
  if (block.shared_written.size() == block.shared_bytes) {
    uint8_t* written = block.shared_written.data() + offset;
    if (store) memset(written, 1, bytes);
    else if (memchr(written, 0, bytes))
      w.note("uninitialized", "read of shared memory that nothing was stored to, offset " + std::to_string(offset), lane);
  }
  if (block.under_way) {
    Access a;
    a.lanes = 1u << lane;
    a.at[lane] = offset;
    check_awaited(w, block, a, (unsigned)bytes, store ? Effect::Store : Effect::Load);
  }
  watch_span(w, lane, nullptr, offset, (unsigned)bytes, store ? Effect::Store : Effect::Load);
  return block.shared + offset;
}

bool was_freed(Memory* memory, uint64_t address) {
  if (!memory) return false;
  std::lock_guard<std::mutex> hold(memory->lock);
  auto after = memory->live.upper_bound(address);
  if (after == memory->live.begin()) return false;
  const Allocation& before = std::prev(after)->second;
  return before.freed && address - before.start < before.bytes;
}

uint8_t* global_span(Warp& w, uint64_t address, uint64_t bytes, bool store, int lane) {
  Memory* memory = w.block->launch->memory;
  Allocation* found = memory ? memory->find(address) : nullptr;
  if (!found) {
    char text[32];
    snprintf(text, sizeof text, "0x%llx", (unsigned long long)address);
    w.fault(was_freed(memory, address) ? "use-after-free" : "out-of-bounds",
            std::string("no allocation holds address ") + text, lane);
  }
  uint64_t offset = address - found->start;
  if (bytes > found->bytes - offset)
    w.fault("out-of-bounds", found->name + " has " + std::to_string(found->bytes) + " bytes, offset " +
            std::to_string(offset + bytes - 1) + " is outside", lane);
  if (found->written.size() == found->bytes) {
    uint8_t* written = found->written.data() + offset;
    if (store) memset(written, 1, bytes);
    else if (memchr(written, 0, bytes))
      w.note("uninitialized", "read of " + found->name + " where nothing was stored, offset " + std::to_string(offset), lane);
  }
  watch_span(w, lane, found, address, (unsigned)bytes, store ? Effect::Store : Effect::Load);
  return reinterpret_cast<uint8_t*>(address);
}

bool in_shared(Warp& w, Space space, uint64_t address) {
  if (space == Space::Shared) return true;
  return space == Space::Generic && address - reinterpret_cast<uint64_t>(w.block->shared) < w.block->shared_bytes;
}

// The host memory of `bytes` bytes, checked.
uint8_t* span(Warp& w, Target access, uint64_t address, uint64_t bytes, int lane) {
  if (!in_shared(w, access.space, address)) return global_span(w, address, bytes, access.store, lane);
  uint64_t offset = access.space == Space::Shared ? address : address - reinterpret_cast<uint64_t>(w.block->shared);
  return shared_span(w, offset, bytes, access.store, lane);
}

void need_alignment(Warp& w, uint64_t address, uint64_t bytes, int lane) {
  if (address & (bytes - 1))
    w.fault("misaligned", "a matrix row must begin at a multiple of " + std::to_string(bytes) + " bytes", lane);
}

// --- ldmatrix, stmatrix, movmatrix ---------------------------------------------------------------
struct Tile { uint16_t at[8][8]; };

Tile transposed(const Tile& t) {
  Tile result;
  for (int r = 0; r < 8; ++r)
    for (int c = 0; c < 8; ++c) result.at[c][r] = t.at[r][c];
  return result;
}

// The most different rows of a tile that begin in the same bank.
int conflicts(const uint64_t (&starts)[8]) {
  int rows[8] = {0}, worst = 0;
  for (int r = 0; r < 8; ++r) {
    bool repeated = false;
    for (int before = 0; before < r; ++before) repeated |= starts[before] == starts[r];
    if (!repeated) worst = std::max(worst, ++rows[starts[r] / 16 % 8]);
  }
  return worst;
}

// The host addresses of the rows, and the wavefronts they take: rows are 16 bytes, so a wavefront moves
// a tile unless two of its rows lie in the same four banks.
int matrix_rows(Warp& w, const Inst& i, const Operand& address, bool store, uint8_t* (&rows)[kLanes]) {
  int wavefronts = 0;
  for (int tile = 0; tile < i.flag[0]; ++tile) {
    uint64_t starts[8];
    uint32_t banks = 0;
    for (int r = 0; r < 8; ++r) {
      int lane = tile * 8 + r;
      starts[r] = address_in(w, address, lane);
      if (i.flag[2]) starts[r] -= reinterpret_cast<uint64_t>(w.block->shared);   // PTX: it points into shared memory
      need_alignment(w, starts[r], 16, lane);
      rows[lane] = shared_span(w, starts[r], 16, store, lane);
      banks |= 1u << (starts[r] / 16 % 8);
    }
    int worst = banks == 0xff ? 1 : conflicts(starts);
    wavefronts += worst;
  }
  w.counts.shared_bank_conflicts += wavefronts - i.flag[0];
  return wavefronts;
}

// flag: tiles, transposed, generic address
void load_matrix(Warp& w, const Inst& i) {
  whole_warp(w, i);
  const auto& o = i.parsed->operands;
  uint8_t* rows[kLanes];
  w.counts.shared_load_requests += 1;
  w.counts.shared_load_wavefronts += matrix_rows(w, i, o[1], false, rows);
  for (int tile = 0; tile < i.flag[0]; ++tile) {
    Tile t;
    for (int r = 0; r < 8; ++r) memcpy(t.at[r], rows[tile * 8 + r], 16);
    if (i.flag[1]) t = transposed(t);
    uint32_t lanes[kLanes];
    memcpy(lanes, &t, sizeof lanes);
    output(w, o[0], tile, lanes);
  }
}

void store_matrix(Warp& w, const Inst& i) {
  whole_warp(w, i);
  const auto& o = i.parsed->operands;
  uint8_t* rows[kLanes];
  w.counts.shared_store_requests += 1;
  w.counts.shared_store_wavefronts += matrix_rows(w, i, o[0], true, rows);
  for (int tile = 0; tile < i.flag[0]; ++tile) {
    Tile t;
    memcpy(&t, input(w, o[1], tile).u32, sizeof t);
    if (i.flag[1]) t = transposed(t);
    for (int r = 0; r < 8; ++r) memcpy(rows[tile * 8 + r], t.at[r], 16);
  }
}

void move_matrix(Warp& w, const Inst& i) {
  whole_warp(w, i);
  const auto& o = i.parsed->operands;
  Tile t;
  memcpy(&t, input(w, o[1], 0).u32, sizeof t);
  t = transposed(t);
  uint32_t lanes[kLanes];
  memcpy(lanes, &t, sizeof lanes);
  output(w, o[0], 0, lanes);
}

}  // namespace

// {ld,st}matrix.sync.aligned.m8n8.NUM{.trans}{.shared}.b16, movmatrix.sync.aligned.m8n8.trans.b16
bool bind_matrix_move(const Parsed& p, Inst& inst) {
  bool load = p.op() == "ldmatrix", move = p.op() == "movmatrix";
  if (p.parts.size() < 6 || p.parts[1] != "sync" || p.parts[2] != "aligned" || p.parts[3] != "m8n8") return false;
  if (p.type() != "b16" || p.operands.size() != 2) return false;
  if (move) {
    inst.run = move_matrix;
    return p.parts.size() == 6 && p.parts[4] == "trans" && is_target(p.operands[0], 1) && is_source(p.operands[1], 1);
  }
  const std::string& number = p.parts[4];
  int tiles = number == "x1" ? 1 : number == "x2" ? 2 : number == "x4" ? 4 : 0;
  bool trans = false, shared = false;
  for (size_t k = 5; k + 1 < p.parts.size(); ++k) {
    if (p.parts[k] == "trans") trans = true;
    else if (p.parts[k] == "shared" || p.parts[k] == "shared::cta") shared = true;
    else return false;
  }
  const Operand& address = p.operands[load ? 1 : 0];
  if (!tiles || address.kind != Operand::Address) return false;
  if (!(load ? is_target(p.operands[0], tiles) : is_source(p.operands[1], tiles))) return false;
  inst.flag[0] = (uint8_t)tiles;
  inst.flag[1] = trans;
  inst.flag[2] = !shared;
  inst.run = load ? load_matrix : store_matrix;
  return true;
}

namespace {

// --- wmma.load, wmma.store -----------------------------------------------------------------------
// What flag[] holds: the matrix and how its tiles lie in registers.
enum Field { Rows, Columns, TileColumns, ColumnMajor, IsB, ElementBytes, Packed, InSpace };

// Moves every element of every register of a fragment from memory or to it.
template <int Bytes, bool Store>
void move_elements(Warp& w, const Inst& i, const Operand& o, uint8_t* const* lines) {
  const uint8_t* f = i.flag;
  bool packed = f[Packed], straight = f[IsB] == f[ColumnMajor];   // straight: a tile's row lies within a line
  int each = f[TileColumns] / 4, a_tile = packed ? 1 : each;
  int high = f[IsB] ? f[TileColumns] : 8, wide = f[IsB] ? 8 : f[TileColumns];
  int down = f[Rows] / high, different = down * (f[Columns] / wide);
  for (int r = 0; r < registers_of(o); ++r) {
    const Operand& one = part(o, r);
    if (one.kind == Operand::Sink) continue;
    uint8_t* reg = reinterpret_cast<uint8_t*>(&w.reg(Bytes == 8 ? source64(one) : source32(one)));
    int tile = r / a_tile % different, row = tile % down * high, column = tile / down * wide;
    uint8_t* const* line = lines + (f[ColumnMajor] ? column : row);
    int start = f[ColumnMajor] ? row : column;
    each_lane(w.active, [&](int lane) {
      int g = lane / 4;
      for (int e = 0; e < (packed ? each : 1); ++e) {
        int j = lane % 4 * each + (packed ? e : r % a_tile);
        uint8_t* memory = straight ? line[g] + (start + j) * Bytes : line[j] + (start + g) * Bytes;
        uint8_t* held = reg + lane * (Bytes == 8 ? 8 : 4) + e * Bytes;
        memcpy(Store ? memory : held, Store ? held : memory, Bytes);
      }
    });
  }
}

template <bool Store>
void move_fragment(Warp& w, const Inst& i, const Operand& o, uint8_t* const* lines) {
  switch (i.flag[ElementBytes]) {
    case 1: return move_elements<1, Store>(w, i, o, lines);
    case 2: return move_elements<2, Store>(w, i, o, lines);
    case 4: return move_elements<4, Store>(w, i, o, lines);
    default: return move_elements<8, Store>(w, i, o, lines);
  }
}

// The matrix's rows (columns, if column-major) in host memory, counted and checked.
void matrix_lines(Warp& w, const Inst& i, const Operand& address, bool store, uint8_t* (&lines)[kLanes]) {
  const uint8_t* f = i.flag;
  int lane = __builtin_ctz(w.active), count = f[ColumnMajor] ? f[Columns] : f[Rows];
  uint64_t bytes = (uint64_t)(f[ColumnMajor] ? f[Rows] : f[Columns]) * f[ElementBytes];
  uint64_t stride = (i.src[0] < 0 ? (uint64_t)i.imm[0] : w.reg(i.src[0]).u32[lane]) * f[ElementBytes];
  uint64_t start = address_in(w, address, lane), sectors = 0, last = ~0ull;
  Space space = (Space)f[InSpace];
  // Leading dimensions are documented to be multiples of 16 bytes; a dense matrix of bytes may have less.
  uint64_t unit = f[ElementBytes] == 8 ? 8 : bytes < 16 ? bytes : 16;
  for (int line = 0; line < count; ++line, start += stride) {
    need_alignment(w, start, unit, lane);
    lines[line] = span(w, {space, store}, start, bytes, lane);
    sectors += (start + bytes - 1) / 32 - start / 32 + (start / 32 != last);
    last = (start + bytes - 1) / 32;
  }
  Counts& c = w.counts;
  uint64_t total = bytes * (uint64_t)count;
  if (in_shared(w, space, start - stride)) {
    (store ? c.shared_store_requests : c.shared_load_requests) += 1;
    (store ? c.shared_store_wavefronts : c.shared_load_wavefronts) += (total + 127) / 128;
  } else {
    (store ? c.global_store_requests : c.global_load_requests) += 1;
    (store ? c.global_store_sectors : c.global_load_sectors) += sectors;
    (store ? c.global_store_bytes : c.global_load_bytes) += total;
  }
}

void load_fragment(Warp& w, const Inst& i) {
  whole_warp(w, i);
  const auto& o = i.parsed->operands;
  uint8_t* lines[kLanes];
  matrix_lines(w, i, o[1], false, lines);
  move_fragment<false>(w, i, o[0], lines);
}

void store_fragment(Warp& w, const Inst& i) {
  whole_warp(w, i);
  const auto& o = i.parsed->operands;
  uint8_t* lines[kLanes];
  matrix_lines(w, i, o[0], true, lines);
  move_fragment<true>(w, i, o[1], lines);
}

int element_bytes(const std::string& type) {
  if (type == "f64") return 8;
  if (type == "f32" || type == "s32" || type == "tf32") return 4;
  return type == "f16" || type == "bf16" ? 2 : 1;
}

// The product that a fragment is for: of A and B that type is known, of C any that accumulates in it.
const Product* product_of(char which, const Shape& s, const std::string& type) {
  for (const auto& one : products()) {
    if (*one.op != 'w' || one.m != s.m || one.n != s.n || one.k != s.k) continue;
    if (which == 'c' ? accumulates(one.a, type) : type == one.a) return &one;
  }
  return nullptr;
}

}  // namespace

// wmma.load.{a,b,c}.sync.aligned.LAYOUT.SHAPE{.SPACE}.TYPE r, [p]{, stride}; wmma.store.d ... [p], r{, stride}
bool bind_fragment_move(const Parsed& p, Inst& inst) {
  bool load = p.parts[1] == "load";
  size_t size = p.parts.size(), count = p.operands.size();
  if (size < 8 || size > 9 || p.parts[3] != "sync" || p.parts[4] != "aligned" || count < 2 || count > 3) return false;
  if (p.parts[2].size() != 1) return false;
  char which = p.parts[2][0] == 'd' && !load ? 'c' : load ? p.parts[2][0] : '?';
  bool column_major = p.parts[5] == "col";
  Shape s;
  if ((!column_major && p.parts[5] != "row") || !read_shape(p.parts[6], s) || !strchr("abc", which)) return false;
  Space space = Space::Generic;
  if (size == 9) {
    if (p.parts[7] == "global") space = Space::Global;
    else if (p.parts[7] == "shared" || p.parts[7] == "shared::cta") space = Space::Shared;
    else return false;
  }
  const std::string& type = p.type();
  const Product* found = product_of(which, s, type);
  const Operand& address = p.operands[load ? 1 : 0];
  const Operand& fragment = p.operands[load ? 0 : 1];
  if (!found || address.kind != Operand::Address) return false;
  int registers = which == 'a' ? found->a_registers : which == 'b' ? found->b_registers : accumulator_registers(s, type);
  if (!(load ? is_target(fragment, registers) : is_source(fragment, registers))) return false;
  if (count == 3) {
    if (!is_source(p.operands[2], 1)) return false;
    inst.src[0] = source32(p.operands[2]);
  }
  int bytes = element_bytes(type);
  uint8_t* f = inst.flag;
  f[Rows] = (uint8_t)(which == 'b' ? s.k : s.m);
  f[Columns] = (uint8_t)(which == 'a' ? s.k : s.n);
  f[TileColumns] = (uint8_t)(which == 'c' ? 8 : columns_for(bytes));
  f[ColumnMajor] = column_major;
  f[IsB] = which == 'b';
  f[ElementBytes] = (uint8_t)bytes;
  f[Packed] = bytes < 4;
  f[InSpace] = (uint8_t)space;
  inst.imm[0] = column_major ? f[Rows] : f[Columns];
  inst.run = load ? load_fragment : store_fragment;
  return true;
}

}  // namespace ptx
