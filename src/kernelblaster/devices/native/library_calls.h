// How the arguments of a library function are checked before it runs, since it is not stepped through.
#pragma once
#if defined(__x86_64__)
#include <string>

#include "sides.h"

namespace stepping {

constexpr int kArguments[] = {7, 6, 2, 1, 8, 9};   // the registers of arguments: rdi rsi rdx rcx r8 r9

// What is wrong with the arguments of a function that takes `takes` (stepping.h), at its first instruction; empty if nothing is.
std::string arguments_finding(Sides& sides, const char* takes);

}  // namespace stepping
#endif
