// Registers of matrix operands, and the families of matrix instructions.
#pragma once
#include "machine.h"

namespace ptx {

inline const Operand& part(const Operand& o, int index) { return o.kind == Operand::Vector ? o.parts[index] : o; }
inline int registers_of(const Operand& o) { return o.kind == Operand::Vector ? (int)o.parts.size() : 1; }

inline Reg& input(Warp& w, const Operand& o, int index, bool wide = false) {
  const Operand& one = part(o, index);
  return w.reg(wide ? source64(one) : source32(one));
}

inline bool is_source(const Operand& o, int count) {
  if (registers_of(o) != count) return false;
  for (int r = 0; r < count; ++r) {
    const Operand& one = part(o, r);
    bool value = one.kind == Operand::Register || one.kind == Operand::Immediate;
    if (!value || one.slot < 0 || one.predicate) return false;
  }
  return true;
}

inline bool is_target(const Operand& o, int count) {
  if (registers_of(o) != count) return false;
  for (int r = 0; r < count; ++r) {
    const Operand& one = part(o, r);
    bool place = one.kind == Operand::Sink || (one.kind == Operand::Register && one.slot >= 0);
    if (!place || one.predicate) return false;
  }
  return true;
}

// Writes a tile of 32-bit lanes, or of 64-bit ones, to a register's active lanes.
inline void output(Warp& w, const Operand& o, int index, const uint32_t* lanes) {
  lanes32(w, target(part(o, index)), [&](int lane) { return lanes[lane]; });
}
inline void output(Warp& w, const Operand& o, int index, const uint64_t* lanes) {
  lanes64(w, target(part(o, index)), [&](int lane) { return lanes[lane]; });
}

inline void whole_warp(Warp& w, const Inst& i) {
  if (w.active != kAllLanes)
    w.note("divergent-warp-sync", "all 32 lanes of a warp must execute " + i.parsed->name(), __builtin_ctz(w.active));
}

// A product that exists: types and shape, registers of its fragments.
struct Product {
  const char *op, *a, *b;
  int m, n, k, a_registers, b_registers;
  Handler run;
};

struct Shape { int m = 0, n = 0, k = 0; };

// Columns of a tile whose elements have `size` bytes.
constexpr int columns_for(int size) { return size == 8 ? 4 : 16 / size; }

const std::vector<Product>& products();
bool read_shape(const std::string& text, Shape& s);                    // m16n8k16
bool accumulates(const std::string& a, const std::string& type);       // whether A of type a adds up in `type`
int accumulator_registers(const Shape& s, const std::string& type);

bool bind_multiply(const Parsed& p, Inst& inst);         // tensor_multiply.cpp
bool bind_matrix_move(const Parsed& p, Inst& inst);      // tensor_memory.cpp
bool bind_fragment_move(const Parsed& p, Inst& inst);

}  // namespace ptx
