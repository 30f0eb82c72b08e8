// How far approximate f32 functions may be off (inexact.cpp).
#pragma once
#include "machine.h"

namespace ptx {

struct Inaccuracy {
  uint32_t units = 1;          // in the last place
  double absolute = 0;         // instead, where the result is below 1
  double relative = 0;         // instead
  Handler exact = nullptr;     // the function without an error of its own, if it has one
};

// Lets an instruction's results be off in launches that are drawn so. `error` is kept.
void make_inexact(Inst& inst, const Inaccuracy& error);

}  // namespace ptx
