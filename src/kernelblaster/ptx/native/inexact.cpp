// Approximate functions whose last bits are drawn. What they return is within the documented error, but a GPU has bits
// of its own: a kernel that knows them would tell the machine by them. So launches err by a drawn seed and at a level, from
// 1, as much and as often as the documentation allows, to 7, hardly at all; within a launch it is one function.
#include <algorithm>
#include <cmath>

#include "inexact.h"

namespace ptx {
namespace {

constexpr int kLevels = 8;
constexpr uint32_t kShares[kLevels] = {0, 224, 128, 96, 64, 32, 16, 0};   // how often results are off, in 1/256

float as_float(uint32_t bits) { float f; memcpy(&f, &bits, 4); return f; }
uint32_t as_bits(float f) { uint32_t bits; memcpy(&bits, &f, 4); return bits; }

// Powers of two, zero, infinity and NaN stay what they are: hardware returns them exactly.
bool special(uint32_t bits) { return !(bits & 0x7fffff) || (bits & 0x7f800000) == 0x7f800000 || !(bits & 0x7f800000); }

uint32_t beside(uint32_t bits, uint64_t drawn, const Inaccuracy& error, uint32_t level) {
  if (error.relative) {   // tanh: within a relative error that is drawn, at most the documented one
    const double size = std::fabs((double)as_float(bits)), scale = std::min({1.0, 4 * size, 4 * (1 - size)});
    const double most = error.relative * std::ldexp(1.0, 1 - (int)level) * std::max(0.0, scale);
    const double noise = (double)(int64_t)drawn * 0x1p-63;
    return as_bits((float)((double)as_float(bits) * (1 + most * noise)));
  }
  if ((drawn & 255) >= kShares[level]) return bits;
  const bool up = drawn >> 8 & 1;
  if (error.absolute && std::fabs(as_float(bits)) < 1) {
    const float moved = (float)((double)as_float(bits) + (up ? error.absolute : -error.absolute));
    return std::fabs(moved) < 1 ? as_bits(moved) : bits;
  }
  const uint32_t units = 1 + (uint32_t)(drawn >> 9) % error.units, moved = up ? bits + units : bits - units;
  return special(moved) ? bits : moved;
}

void inexact(Warp& w, const Inst& inst) {
  uint32_t arguments[2][kLanes];
  for (int k = 0; k < 2; ++k) memcpy(arguments[k], w.reg(inst.src[k]).u32, sizeof arguments[k]);
  const Inaccuracy& error = *(const Inaccuracy*)inst.imm[2];
  const Draws& draws = w.block->launch->draws;
  ((Handler)(draws.inexact && error.exact ? error.exact : (Handler)inst.imm[3]))(w, inst);
  if (!draws.inexact) return;
  const uint32_t level = std::min(draws.inexact, (uint32_t)kLevels - 1);
  const uint64_t seed = mixed(draws.seed, (uint64_t)inst.imm[2]);
  uint32_t* results = w.reg(inst.dst[0]).u32;
  each_lane(w.active, [&](int l) {
    const uint64_t drawn = mixed(seed, (uint64_t)arguments[0][l] << 32 | arguments[1][l]);
    if (!special(results[l]) && results[l] != arguments[0][l]) results[l] = beside(results[l], drawn, error, level);
  });
}

}  // namespace

void make_inexact(Inst& inst, const Inaccuracy& error) {
  inst.imm[2] = (int64_t)&error;
  inst.imm[3] = (int64_t)inst.run;
  inst.run = inexact;
}

}  // namespace ptx
