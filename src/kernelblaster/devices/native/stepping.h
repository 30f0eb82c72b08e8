// A stepped call: two processes make the same call of host code, loaded at different addresses and given tensors at
// different addresses, and are run side by side, instruction by instruction. Whatever the candidate's code computes with must
// be equal in both, or be an address of the same thing in both. Host code that asks where it is loaded, and would do
// something else at one place of a million, is found whatever the answer is this time.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace stepping {

// A function that the candidate imports, and how its arguments are checked, since it is not stepped through. `takes` has a
// letter for each argument:
//   p a pointer, what it points to is not read    n a number    i a number of 32 bits    d, f floating-point numbers
//   t text up to a zero byte    u the same, at most as much as the next argument says    U as the third says
//   m memory, as many bytes as the next argument says    q as the one after it says    M as the third says
//   w as the product of the next two    e up to where the next argument points
//   8 memory of 8 bytes    o of 16 bytes    s a std::string    % a format, with what it prints    v a va_list, after %
//   A it returns a block of memory that is aligned    B its first argument says where it puts the address of one
//   F one of the standard streams
//   * all arguments of a function of CUDA, which are recorded    ! it cannot be followed
struct Import {
  uint64_t address;
  char takes[8];
};

struct Region { uint64_t base, begin, end; };

constexpr int kRegions = 32;   // at most

// What a process says of itself where it waits to be stepped; at the address in rdi.
struct Announcement {
  uint64_t text_begin, text_end;   // executable memory of the candidate
  uint64_t loaded;                 // where the candidate is loaded
  uint64_t entry;                  // of the function to be called
  Region regions[kRegions];        // where addresses may point, the same in number and order in every process
  uint64_t imports, count;         // an array of Import, in the same order in every process
  uint64_t files[2];               // stdout and stderr
};

// In the stepped process: waits, and makes itself known to the process that steps it. What malloc gives from then on lies
// at `of_heap` in a page.
void announce(const void* entry, uint64_t tensors, uint64_t tensors_bytes, uint64_t stream, uint64_t of_heap);
// In the stepped process, before its first call and after the last: waits.
inline __attribute__((always_inline)) void wait_here() {
#if defined(__x86_64__)
  asm volatile("int3" : : : "memory");
#endif
}
// In the stepped process, before anything else: lets its parent step it. Where the system does not allow it, the process ends
// with the code kNotTraced.
void be_stepped();
constexpr int kNotTraced = 3;
constexpr char kAgain[] = "again";
// Steps both processes, which have just been started and called be_stepped(), through one call. Returns a line:
// "steps N", and then both wait in wait_here(); "finding N WHAT" (N: where in its object), "missing WHY",
// or "again N" where the system gave them addresses that are too much alike: bit i of N says that all bits of kWithin[i % 2] are
// equal in the two addresses of region kCompared[i / 2].
constexpr int kCompared[] = {0, 3, 4, 6};   // libraries, heap, stack, candidate: no byte of their addresses may be equal
constexpr uint64_t kWithin[] = {0xf000, 0x1f0000};   // bits below 2 MiB, which systems do not draw for all regions
constexpr int kParts = 8;
struct How {
  bool clear;       // what functions leave on the stack, which ends up in the padding of structures
  unsigned fixed;   // as N above: bits that this system never draws, and that may be equal
};
std::string step(const int (&processes)[2], double deadline_s, const How& how);
// Lets processes that wait in wait_here() go on.
void go_on(const int (&processes)[2]);

}  // namespace stepping
