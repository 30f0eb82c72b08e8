// A stepped call: two processes make the same call of host code, loaded at different addresses and given tensors at
// different addresses, and are run side by side, instruction by instruction. Whatever the candidate's code computes with must
// be equal in both, or be an address of the same thing in both. Host code that asks where it is loaded, and would do
// something else at one place of a million, is found whatever the answer is this time.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace stepping {

// How the arguments of a library function are checked before it runs, since it is not stepped through.
enum class Checks : uint32_t {
  kNothing,     // the CUDA functions, whose arguments are recorded; free, delete
  kSizes,       // the arguments of `which` must be equal in both processes
  kCopy,        // memcpy and memmove: not of a part of an address
  kNumber,      // mathematics: xmm0 must be equal
  kBytes,       // reads text: what its arguments point to must be equal, but for those of `which`
  kPrints,      // the same, and how long the text is that it writes may not be used
  kMemory,      // reads bytes, as many as the third argument says: they must be equal
  kObject,      // the same as kBytes, but that its first argument is an object, which may hold addresses
  kNotFollowed, // calls back, or unwinds the stack
};

struct Import {
  uint64_t address;
  Checks checks;
  uint32_t which;            // arguments, as bits
};

struct Region { uint64_t base, begin, end; };

constexpr int kRegions = 6;

// What a process says of itself where it waits to be stepped; at the address in rdi.
struct Announcement {
  uint64_t text_begin, text_end;   // executable memory of the candidate
  uint64_t loaded;                 // where the candidate is loaded
  uint64_t entry;                  // of the function to be called
  Region regions[kRegions];        // where addresses may point, the same in number and order in every process
  uint64_t imports, count;         // an array of Import, in the same order in every process
};

// In a function that never returns: what guards stacks, which is drawn for each process, is the same in both.
inline __attribute__((always_inline)) void guard_stacks_alike() {
#if defined(__x86_64__)
  asm volatile("movq %0, %%fs:0x28" : : "r"(0x6b65726e656c0000ull));
#endif
}
// In the stepped process: waits, and makes itself known to the process that steps it.
void announce(const void* entry, uint64_t tensors, uint64_t tensors_bytes);
// In the stepped process, before anything else: lets its parent step it. Where the system does not allow it, the process ends
// with the code kNotTraced.
void be_stepped();
constexpr int kNotTraced = 3;
// Steps both processes, which have just been started and called be_stepped(), through one call. Returns a line:
// "steps N", "finding N WHAT" or "missing WHY".
std::string step(const int (&processes)[2], double deadline_s);

}  // namespace stepping
