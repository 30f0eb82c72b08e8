// Matrix products: mma and wmma.mma.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <type_traits>

#include "tensor.h"

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
template <typename T>
constexpr int columns = columns_for(sizeof(typename T::Raw));

// --- D = A * B + C -------------------------------------------------------------------------------
// Steps are not inlined: products of one shape share them, whatever their types.
// A register's elements, one loop over all of them so that conversion is vector code.
template <typename T, typename Value>
void read_tile(Warp& w, const Operand& o, int index, Value (&tile)[8 * columns<T>]) {
  typename T::Raw raw[8 * columns<T>];
  memcpy(raw, &input(w, o, index, sizeof(typename T::Raw) == 8), sizeof raw);
  for (int e = 0; e < 8 * columns<T>; ++e) tile[e] = T::value(raw[e]);
}

template <typename T, int M, int K, typename Value>
[[gnu::noinline]] void read_a(Warp& w, const Operand& o, Value (&a)[M][K]) {
  constexpr int C = columns<T>;
  for (int tile = 0; tile < M / 8 * (K / C); ++tile) {
    Value values[8 * C];
    read_tile<T>(w, o, tile, values);
    int row = tile % (M / 8) * 8, column = tile / (M / 8) * C;
    for (int g = 0; g < 8; ++g) memcpy(&a[row + g][column], &values[g * C], C * sizeof(Value));
  }
}

template <typename T, int K, int N, typename Value>
[[gnu::noinline]] void read_b(Warp& w, const Operand& o, Value (&b)[K][N]) {
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
[[gnu::noinline]] void add_product(const Value (&a)[M][K], const Value (&b)[K][N], Value (&d)[M][N]) {
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
[[gnu::noinline]] void read_c(Warp& w, const Operand& o, bool halves, double (&c)[M][N]) {
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
[[gnu::noinline]] void write_d(Warp& w, const Operand& o, bool halves, const double (&d)[M][N]) {
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

}  // namespace

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

bool read_shape(const std::string& text, Shape& s) {
  int used = 0;
  return sscanf(text.c_str(), "m%dn%dk%d%n", &s.m, &s.n, &s.k, &used) == 3 && used == (int)text.size();
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

static const Product* find_product(const char* op, const Shape& s, const std::string& a, const std::string& b) {
  for (const auto& one : products())
    if (!strcmp(one.op, op) && one.m == s.m && one.n == s.n && one.k == s.k && a == one.a && b == one.b) return &one;
  return nullptr;
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

}  // namespace ptx
