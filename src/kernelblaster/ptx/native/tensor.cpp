// Matrix instructions: ldmatrix, stmatrix, movmatrix, mma.sync and wmma.
//
// Every fragment is made of tiles of 8 rows, one register a tile: lane 4g+t holds the elements of row g
// that follow one another from column t*E, E being the elements that fit a 32-bit register (a 64-bit one
// holds a double). A register's bytes, lane after lane, are therefore the tile in row-major order. B is
// kept the same way with rows and columns exchanged. Accumulators are 8x8 tiles: halves are packed two a
// register, wider ones take two registers a tile. wmma's mapping, which PTX leaves open, is the same;
// fragments with more registers than tiles (wmma's half A and B) hold every tile several times.
//
// Products are exact, sums are made in double and rounded once: hardware promises no order, and rounds
// no better. Only double precision is a chain of fused operations, as documented.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <type_traits>

#include "machine.h"

namespace ptx {
namespace {

// --- number formats ------------------------------------------------------------------------------
float from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

uint32_t to_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Without branches, for vector code: the half's fields as a float's are 2^112 too small, subnormals too.
float half_value(uint16_t half) {
  uint32_t bits = to_bits(from_bits((half & 0x7fffu) << 13) * 0x1p112f);
  bits |= (half & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0u;
  return from_bits(bits | (half & 0x8000u) << 16);
}

// To nearest, ties to even; without branches too.
uint32_t half_from(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  double size = std::fabs(value);
  int64_t exponent = (int64_t)(bits >> 52 & 0x7ff) - 1023;
  exponent = exponent < -14 ? -14 : exponent > 15 ? 15 : exponent;
  uint64_t scale_bits = (uint64_t)(1023 + 10 - exponent) << 52;
  double scale;
  memcpy(&scale, &scale_bits, sizeof scale);
  // In units of the last place, rounded to the integer in the low bits of a double of 2^52 and more; a
  // carry out of the significand is a step of the exponent.
  double units = (size >= 65520.0 ? 0.0 : size) * scale + 0x1p52;
  uint64_t unit_bits;
  memcpy(&unit_bits, &units, sizeof unit_bits);
  uint32_t half = (uint32_t)(unit_bits & 0xfff) + ((uint32_t)(exponent + 14) << 10);
  half = size >= 65520.0 ? 0x7c00u : half;
  return value != value ? 0x7fffu : half | (uint32_t)(bits >> 48 & 0x8000u);
}

uint32_t single_from(double value) { return value != value ? 0x7fffffffu : to_bits((float)value); }

struct ByteFloats {   // the values of all e4m3 bytes: bias 7, no infinity, 0x7f and 0xff are NaN
  float value[256];
  ByteFloats() {
    for (int byte = 0; byte < 256; ++byte) {
      int exponent = byte >> 3 & 15, fraction = byte & 7;
      float size = exponent ? std::ldexp(8.f + fraction, exponent - 10) : std::ldexp((float)fraction, -9);
      if ((byte & 0x7f) == 0x7f) size = NAN;
      value[byte] = byte & 0x80 ? -size : size;
    }
  }
};
const ByteFloats e4m3;

// Element types. `columns` is the width of a tile: 8 rows of it fill a register.
struct Half {
  using Raw = uint16_t;
  static constexpr const char* name = "f16";
  static float value(Raw raw) { return half_value(raw); }
};
struct Bfloat {
  using Raw = uint16_t;
  static constexpr const char* name = "bf16";
  static float value(Raw raw) { return from_bits((uint32_t)raw << 16); }
};
struct Tf32 {   // the low 13 bits do not take part
  using Raw = uint32_t;
  static constexpr const char* name = "tf32";
  static float value(Raw raw) { return from_bits(raw & 0xffffe000u); }
};
struct E4m3 {
  using Raw = uint8_t;
  static constexpr const char* name = "e4m3";
  static float value(Raw raw) { return e4m3.value[raw]; }
};
struct E5m2 {   // the upper byte of a half
  using Raw = uint8_t;
  static constexpr const char* name = "e5m2";
  static float value(Raw raw) { return half_value((uint16_t)(raw << 8)); }
};
struct S8 {
  using Raw = uint8_t;
  static constexpr const char* name = "s8";
  static int32_t value(Raw raw) { return (int8_t)raw; }
};
struct U8 {
  using Raw = uint8_t;
  static constexpr const char* name = "u8";
  static int32_t value(Raw raw) { return raw; }
};
struct F64 {
  using Raw = double;
  static constexpr const char* name = "f64";
  static double value(Raw raw) { return raw; }
};
constexpr int columns_for(int size) { return size == 8 ? 4 : 16 / size; }
template <typename T>
constexpr int columns = columns_for(sizeof(typename T::Raw));

// --- registers of an operand ---------------------------------------------------------------------
const Operand& part(const Operand& o, int index) { return o.kind == Operand::Vector ? o.parts[index] : o; }
int registers_of(const Operand& o) { return o.kind == Operand::Vector ? (int)o.parts.size() : 1; }

Reg& input(Warp& w, const Operand& o, int index, bool wide = false) {
  const Operand& one = part(o, index);
  return w.reg(wide ? source64(one) : source32(one));
}

bool is_source(const Operand& o, int count) {
  if (registers_of(o) != count) return false;
  for (int r = 0; r < count; ++r) {
    const Operand& one = part(o, r);
    bool value = one.kind == Operand::Register || one.kind == Operand::Immediate;
    if (!value || one.slot < 0 || one.predicate) return false;
  }
  return true;
}

bool is_target(const Operand& o, int count) {
  if (registers_of(o) != count) return false;
  for (int r = 0; r < count; ++r) {
    const Operand& one = part(o, r);
    bool place = one.kind == Operand::Sink || (one.kind == Operand::Register && one.slot >= 0);
    if (!place || one.predicate) return false;
  }
  return true;
}

// Writes a tile of 32-bit lanes, or of 64-bit ones, to a register's active lanes.
void output(Warp& w, const Operand& o, int index, const uint32_t* lanes) {
  lanes32(w, target(part(o, index)), [&](int lane) { return lanes[lane]; });
}
void output(Warp& w, const Operand& o, int index, const uint64_t* lanes) {
  lanes64(w, target(part(o, index)), [&](int lane) { return lanes[lane]; });
}

void whole_warp(Warp& w, const Inst& i) {
  if (w.active != kAllLanes)
    w.note("divergent-warp-sync", "all 32 lanes of a warp must execute " + i.parsed->name(), __builtin_ctz(w.active));
}

// --- D = A * B + C -------------------------------------------------------------------------------
// A register's elements, one loop over all of them so that conversion is vector code.
template <typename T, typename Value>
void read_tile(Warp& w, const Operand& o, int index, Value (&tile)[8 * columns<T>]) {
  typename T::Raw raw[8 * columns<T>];
  memcpy(raw, &input(w, o, index, sizeof(typename T::Raw) == 8), sizeof raw);
  for (int e = 0; e < 8 * columns<T>; ++e) tile[e] = T::value(raw[e]);
}

template <typename T, int M, int K, typename Value>
void read_a(Warp& w, const Operand& o, Value (&a)[M][K]) {
  constexpr int C = columns<T>;
  for (int tile = 0; tile < M / 8 * (K / C); ++tile) {
    Value values[8 * C];
    read_tile<T>(w, o, tile, values);
    int row = tile % (M / 8) * 8, column = tile / (M / 8) * C;
    for (int g = 0; g < 8; ++g) memcpy(&a[row + g][column], &values[g * C], C * sizeof(Value));
  }
}

template <typename T, int K, int N, typename Value>
void read_b(Warp& w, const Operand& o, Value (&b)[K][N]) {
  constexpr int C = columns<T>;
  for (int tile = 0; tile < N / 8 * (K / C); ++tile) {
    Value values[8 * C];
    read_tile<T>(w, o, tile, values);
    int row = tile % (K / C) * C, column = tile / (K / C) * 8;
    for (int j = 0; j < C; ++j)
      for (int g = 0; g < 8; ++g) b[row + j][column + g] = values[g * C + j];
  }
}

// d += a * b, eight columns at a time.
template <typename Value, int M, int N, int K>
void add_product(const Value (&a)[M][K], const Value (&b)[K][N], Value (&d)[M][N]) {
  typedef Value Eight __attribute__((vector_size(8 * sizeof(Value)), aligned(sizeof(Value)), may_alias));
  for (int n = 0; n < N; n += 8)
    for (int m = 0; m < M; ++m) {
      Eight sum = *reinterpret_cast<const Eight*>(&d[m][n]);
      for (int k = 0; k < K; ++k) sum += a[m][k] * *reinterpret_cast<const Eight*>(&b[k][n]);
      *reinterpret_cast<Eight*>(&d[m][n]) = sum;
    }
}

// Calls body(tile, row, column) for the 8x8 tiles of an accumulator.
template <int M, int N, typename Body>
void each_tile(Body body) {
  for (int tile = 0; tile < M / 8 * (N / 8); ++tile) body(tile, tile % (M / 8) * 8, tile / (M / 8) * 8);
}

template <int M, int N>
void read_c(Warp& w, const Operand& o, bool halves, double (&c)[M][N]) {
  each_tile<M, N>([&](int tile, int row, int column) {
    double values[64];
    if (halves) {
      read_tile<Half>(w, o, tile, values);
    } else {
      const float *even = input(w, o, 2 * tile).f32, *odd = input(w, o, 2 * tile + 1).f32;
      for (int lane = 0; lane < kLanes; ++lane) values[2 * lane] = even[lane], values[2 * lane + 1] = odd[lane];
    }
    for (int g = 0; g < 8; ++g) memcpy(&c[row + g][column], &values[8 * g], 8 * sizeof(double));
  });
}

template <int M, int N>
void write_d(Warp& w, const Operand& o, bool halves, const double (&d)[M][N]) {
  each_tile<M, N>([&](int tile, int row, int column) {
    double values[64];
    for (int g = 0; g < 8; ++g) memcpy(&values[8 * g], &d[row + g][column], 8 * sizeof(double));
    uint32_t even[kLanes], odd[kLanes];
    if (halves) {
      for (int lane = 0; lane < kLanes; ++lane)
        even[lane] = half_from(values[2 * lane]) | half_from(values[2 * lane + 1]) << 16;
      return output(w, o, tile, even);
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      even[lane] = single_from(values[2 * lane]);
      odd[lane] = single_from(values[2 * lane + 1]);
    }
    output(w, o, 2 * tile, even);
    output(w, o, 2 * tile + 1, odd);
  });
}

// flag: C is half, D is half
template <typename A, typename B, int M, int N, int K>
void multiply(Warp& w, const Inst& i) {
  whole_warp(w, i);
  const auto& o = i.parsed->operands;
  double a[M][K], b[K][N], d[M][N];
  read_a<A>(w, o[1], a);
  read_b<B>(w, o[2], b);
  read_c(w, o[3], i.flag[0], d);
  add_product(a, b, d);
  write_d(w, o[0], i.flag[1], d);
  w.counts.tensor_operations += 2 * M * N * K;
}

// flag: saturate to the limits of s32 instead of wrapping
template <typename A, typename B, int M, int N, int K>
void multiply_integers(Warp& w, const Inst& i) {
  whole_warp(w, i);
  const auto& o = i.parsed->operands;
  int32_t a[M][K], b[K][N], d[M][N] = {{0}};
  read_a<A>(w, o[1], a);
  read_b<B>(w, o[2], b);
  add_product(a, b, d);
  uint32_t result[M * N / kLanes][kLanes];   // all of C is read before D is written: they may share registers
  each_tile<M, N>([&](int tile, int row, int column) {
    for (int j = 0; j < 2; ++j) {
      const int32_t* c = input(w, o[3], 2 * tile + j).s32;
      for (int lane = 0; lane < kLanes; ++lane) {
        int64_t sum = (int64_t)c[lane] + d[row + lane / 4][column + lane % 4 * 2 + j];
        if (i.flag[0]) sum = std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX);
        result[2 * tile + j][lane] = (uint32_t)sum;
      }
    }
  });
  for (int r = 0; r < M * N / kLanes; ++r) output(w, o[0], r, result[r]);
  w.counts.tensor_operations += 2 * M * N * K;
}

template <int M, int N, int K>
void multiply_doubles(Warp& w, const Inst& i) {
  whole_warp(w, i);
  const auto& o = i.parsed->operands;
  double a[M][K], b[K][N];
  read_a<F64>(w, o[1], a);
  read_b<F64>(w, o[2], b);
  uint64_t result[M * N / kLanes][kLanes];
  each_tile<M, N>([&](int tile, int row, int column) {
    for (int j = 0; j < 2; ++j) {
      const double* c = input(w, o[3], 2 * tile + j, true).f64;
      for (int lane = 0; lane < kLanes; ++lane) {
        int m = row + lane / 4, n = column + lane % 4 * 2 + j;
        double sum = c[lane];
        for (int k = 0; k < K; ++k) sum = std::fma(a[m][k], b[k][n], sum);
        memcpy(&result[2 * tile + j][lane], &sum, sizeof sum);
      }
    }
  });
  for (int r = 0; r < M * N / kLanes; ++r) output(w, o[0], r, result[r]);
  w.counts.tensor_operations += 2 * M * N * K;
}

// --- which products exist ------------------------------------------------------------------------
struct Product {
  const char *op, *a, *b;
  int m, n, k, a_registers, b_registers;
  Handler run;
};

template <typename A, typename B, int M, int N, int K>
Product product(const char* op) {
  Handler run = nullptr;
  if constexpr (std::is_same_v<A, F64>) run = multiply_doubles<M, N, K>;
  else if constexpr (std::is_same_v<decltype(A::value(0)), int32_t>) run = multiply_integers<A, B, M, N, K>;
  else run = multiply<A, B, M, N, K>;
  bool repeated = std::is_same_v<A, Half> && *op == 'w';   // wmma's half fragments always have 8 registers
  return {op, A::name, B::name, M, N, K,
          repeated ? 8 : M * K / (8 * columns<A>), repeated ? 8 : K * N / (8 * columns<B>), run};
}

template <typename T>
void add_wmma16(std::vector<Product>& all) {
  all.push_back(product<T, T, 16, 16, 16>("wmma"));
  all.push_back(product<T, T, 32, 8, 16>("wmma"));
  all.push_back(product<T, T, 8, 32, 16>("wmma"));
}

template <typename A, typename B>
void add_integers(std::vector<Product>& all) {
  all.push_back(product<A, B, 8, 8, 16>("mma"));
  all.push_back(product<A, B, 16, 8, 16>("mma"));
  all.push_back(product<A, B, 16, 8, 32>("mma"));
}

template <typename A, typename B>
void add_byte_floats(std::vector<Product>& all) {
  all.push_back(product<A, B, 16, 8, 16>("mma"));
  all.push_back(product<A, B, 16, 8, 32>("mma"));
}

const std::vector<Product>& products() {
  static const std::vector<Product> known = [] {
    std::vector<Product> all = {
        product<Half, Half, 16, 8, 8>("mma"),     product<Half, Half, 16, 8, 16>("mma"),
        product<Bfloat, Bfloat, 16, 8, 8>("mma"), product<Bfloat, Bfloat, 16, 8, 16>("mma"),
        product<Tf32, Tf32, 16, 8, 4>("mma"),     product<Tf32, Tf32, 16, 8, 8>("mma"),
        product<Tf32, Tf32, 16, 16, 8>("wmma"),   product<F64, F64, 8, 8, 4>("mma"),
        product<F64, F64, 16, 8, 4>("mma"),       product<F64, F64, 16, 8, 8>("mma"),
        product<F64, F64, 16, 8, 16>("mma"),      product<F64, F64, 8, 8, 4>("wmma"),
    };
    add_wmma16<Half>(all);
    add_wmma16<Bfloat>(all);
    add_wmma16<S8>(all);
    add_wmma16<U8>(all);
    add_integers<S8, S8>(all);
    add_integers<S8, U8>(all);
    add_integers<U8, S8>(all);
    add_integers<U8, U8>(all);
    add_byte_floats<E4m3, E4m3>(all);
    add_byte_floats<E4m3, E5m2>(all);
    add_byte_floats<E5m2, E4m3>(all);
    add_byte_floats<E5m2, E5m2>(all);
    return all;
  }();
  return known;
}

struct Shape { int m = 0, n = 0, k = 0; };
bool read_shape(const std::string& text, Shape& s) {
  int used = 0;
  return sscanf(text.c_str(), "m%dn%dk%d%n", &s.m, &s.n, &s.k, &used) == 3 && used == (int)text.size();
}

const Product* find_product(const char* op, const Shape& s, const std::string& a, const std::string& b) {
  for (const auto& one : products())
    if (!strcmp(one.op, op) && one.m == s.m && one.n == s.n && one.k == s.k && a == one.a && b == one.b) return &one;
  return nullptr;
}

bool accumulates(const std::string& a, const std::string& type) {
  if (a == "f64") return type == "f64";
  if (a == "s8" || a == "u8") return type == "s32";
  if (a == "bf16" || a == "tf32") return type == "f32";
  return type == "f32" || type == "f16";
}

int accumulator_registers(const Shape& s, const std::string& type) {
  return s.m * s.n / kLanes / (type == "f16" ? 2 : 1);
}

// mma.sync.aligned.SHAPE.row.col{.satfinite}.D.A.B.C or
// wmma.mma.sync.aligned.LAYOUT.LAYOUT.SHAPE.D{.A.B}.C{.satfinite}
bool bind_multiply(const Parsed& p, Inst& inst) {
  bool wmma = p.op() == "wmma";
  size_t at = wmma ? 2 : 1;
  if (p.parts.size() < at + 7 || p.parts[at] != "sync" || p.parts[at + 1] != "aligned" || p.operands.size() != 4) return false;
  Shape shape;
  size_t shape_at = wmma ? at + 4 : at + 2, layout_at = wmma ? at + 2 : at + 3;
  if (!read_shape(p.parts[shape_at], shape)) return false;
  for (size_t k = layout_at; k < layout_at + 2; ++k)
    if (p.parts[k] != "row" && p.parts[k] != "col") return false;
  if (!wmma && (p.parts[layout_at] != "row" || p.parts[layout_at + 1] != "col")) return false;
  bool saturate = false, nearest = false;
  std::vector<std::string> types;
  for (size_t k = at + 5; k < p.parts.size(); ++k) {
    if (p.parts[k] == "satfinite") saturate = true;
    else if (p.parts[k] == "rn") nearest = true;
    else types.push_back(p.parts[k]);
  }
  if (wmma && types.size() == 2) types = {types[0], "f16", "f16", types[1]};
  if (types.size() != 4) return false;
  const std::string &d = types[0], &a = types[1], &c = types[3];
  const Product* found = find_product(wmma ? "wmma" : "mma", shape, a, types[2]);
  if (!found || !accumulates(a, d) || !accumulates(a, c)) return false;
  if ((!wmma && d != c) || (saturate && d != "s32") || (nearest && d != "f64")) return false;
  const auto& o = p.operands;
  if (!is_target(o[0], accumulator_registers(shape, d)) || !is_source(o[1], found->a_registers) ||
      !is_source(o[2], found->b_registers) || !is_source(o[3], accumulator_registers(shape, c)))
    return false;
  inst.flag[0] = d == "s32" ? saturate : c == "f16";
  inst.flag[1] = d == "f16";
  inst.run = found->run;
  return true;
}

// --- memory --------------------------------------------------------------------------------------
uint64_t address_in(Warp& w, const Operand& o, int lane) {
  if (o.slot < 0) return (uint64_t)o.offset;
  const Reg& base = w.reg(o.slot);
  if (o.width == 32) return base.u32[lane] + (uint32_t)o.offset;   // wraps, as 32-bit addresses do
  return base.u64[lane] + (uint64_t)o.offset;
}

struct Access { Space space; bool store; };

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
  return reinterpret_cast<uint8_t*>(address);
}

bool in_shared(Warp& w, Space space, uint64_t address) {
  if (space == Space::Shared) return true;
  return space == Space::Generic && address - reinterpret_cast<uint64_t>(w.block->shared) < w.block->shared_bytes;
}

// The host memory of `bytes` bytes, checked.
uint8_t* span(Warp& w, Access access, uint64_t address, uint64_t bytes, int lane) {
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

bool bind_any(const Parsed& p, Inst& inst) {
  const std::string& op = p.op();
  if (op == "ldmatrix" || op == "stmatrix" || op == "movmatrix") return bind_matrix_move(p, inst);
  if (op == "mma") return bind_multiply(p, inst);
  if (op != "wmma" || p.parts.size() < 3) return false;
  if (p.parts[1] == "mma") return bind_multiply(p, inst);
  return (p.parts[1] == "load" || p.parts[1] == "store") && bind_fragment_move(p, inst);
}

}  // namespace

bool bind_tensor(const Parsed& p, Inst& inst) {
  if (!bind_any(p, inst)) return inst.run = nullptr, false;
  if (!inst.parsed) inst.parsed = std::make_shared<Parsed>(p);   // handlers read the registers from it
  inst.klass = Class::Tensor;
  return true;
}

}  // namespace ptx
