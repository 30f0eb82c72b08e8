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
#include "tensor.h"

namespace ptx {
namespace {

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
