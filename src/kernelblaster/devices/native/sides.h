// The two processes of a stepped call (stepping.h), side by side: their registers and memory, and what a pair of values is.
#pragma once
#if defined(__x86_64__)
#include <sys/user.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "stepping.h"

namespace stepping {

struct Side {
  int pid = 0;
  Announcement says{};
  user_regs_struct regs{};
  user_fpregs_struct vectors{};
  std::vector<Import> imports;
  bool ended = false;
  std::string how;           // it ended, in words

  uint64_t general(int number) const;
  void set_general(int number, uint64_t value);
  // False where it is not mapped.
  bool read(uint64_t address, void* into, size_t bytes) const;
  // Writes zeros to whole words.
  void clear(uint64_t begin, uint64_t end) const;
  bool set_byte(uint64_t address, uint8_t value, uint8_t* before) const;
  void read_registers();
  void write_registers();
  void read_vectors();
  // Waits until it stops. False where it has ended.
  bool stopped(int* by = nullptr);
};

struct Pair { uint64_t a = 0, b = 0; };
// A value that is equal in both processes is a number. One that differs and points to the same place of the same region in
// both is an address. All else that differs was made from an address.
enum class Kind { kEqual, kAddress, kOther };

uint64_t cut(uint64_t value, int bytes);

struct Sides {
  Side a, b;
  std::array<Side*, 2> both() { return {&a, &b}; }
  std::vector<std::pair<Region, Region>> blocks;   // of memory that lie elsewhere in their regions: aligned ones

  Kind kind(Pair value, int bytes = 8) const;
  // Whether two addresses may be compared: they are in one region, or both are of memory that there is. Others lie in an
  // order that may differ from process to process.
  bool comparable(Pair one, Pair other) const;
  Pair general(int number, bool high = false) const;
  // {} where it is not mapped in one of them: the access will fail there.
  Pair memory(Pair at, int bytes = 8) const;   // of at most 8
  bool same_memory(Pair at, uint64_t bytes) const;
  void read_vectors();
  bool same_vector(int number, size_t bytes) const;
  Pair vector_low(int number) const;

 private:
  bool in_region(Pair value, int which) const;
  bool mapped(Pair value) const;
};

}  // namespace stepping
#endif
