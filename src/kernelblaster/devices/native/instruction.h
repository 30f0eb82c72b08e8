// One x86-64 instruction, as far as a stepped call (stepping.cpp) needs to know it: which registers and which memory it
// reads, how wide, and what kind of thing it does with them.
#pragma once
#include <cstdint>
#include <string>

namespace stepping {

// What an instruction does with what it reads.
enum class Does {
  kMove,      // moves bits as they are: nothing is computed from them
  kAdd,       // add, sub, inc, dec, lea: an address stays one
  kAnd,       // and: alignment of addresses
  kCompare,   // cmp: sets flags alone
  kTest,      // test: sets flags alone
  kCompute,   // anything else with general registers or memory
  kString,    // movs, stos, lods: bytes at rsi or rax, to rdi or rax
  kVector,    // arithmetic or comparison in xmm registers
  kUnknown,   // not decoded, or not to be followed
};

constexpr int kNone = -1;

struct Instruction {
  Does does = Does::kUnknown;
  int length = 0;            // up to the end of the displacement; what follows it are immediates
  int bytes = 8;             // of the operands: 1, 2, 4, 8; of vectors 4, 8 or 16
  bool load_effective = false;   // lea: the address is the result, and no memory is read
  bool reads_target = true;  // the target is a source too
  bool same = false;         // both operands are one register
  bool narrows = false;      // moves that take a part of what they read (fewer than 8 bytes)
  bool has_immediate = false;
  int64_t immediate = 0;
  int target = kNone, source = kNone;   // general registers, or xmm registers where `does` is kVector
  bool target_is_xmm = false, source_is_xmm = false;   // for moves, which may have both kinds
  bool target_is_memory = false, source_is_memory = false;
  bool target_high = false, source_high = false;       // ah, ch, dh, bh
  unsigned also = 0;         // more general registers that it reads, as bits
  bool bitwise = false;      // and, or, xor: each bit of the result depends on the same bits of the operands
  bool conditional = false;  // cmov: may leave its target as it is
  bool repeats = false, loads = false, stores = false;   // of kString: as often as rcx says, from rsi, to rdi
  bool reads_flags = false, sets_flags = false;   // sets_flags: all of them that are ever read, by the operands named here
  bool subtracts = false;    // of kAdd
  bool returns = false;
  bool low_alone = false;    // the lowest byte of the result depends on the lowest bytes of the operands alone
  bool asks_equality = false;   // of the flags, it reads zero alone
  int writes = kNone;        // a general register of which it writes every bit (4 or 8 bytes)
  // The memory operand: [segment + base + index * scale + displacement].
  bool memory = false, of_thread = false, relative = false;
  int base = kNone, index = kNone, scale = 1;
  int64_t displacement = 0;
};

// Decodes what begins at `code`, of which `available` bytes may be read.
Instruction decode(const uint8_t* code, size_t available);

}  // namespace stepping
