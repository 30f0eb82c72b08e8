// How memory instructions are written: what follows the opcode, and their operands.
#pragma once
#include "access.h"

namespace ptx {

// What the dotted parts after the opcode say. Hints about caches and ordering change no value here.
struct Qualifiers {
  Space space = Space::Generic;
  int vector = 1;
  std::string type, operation;       // operation: of atom and red
  bool cache_policy = false;         // one more operand at the end
  bool strong = false;               // volatile, relaxed, acquire, release
  bool release = false;              // nothing before it moves behind it
  bool in_block = false;             // for threads of the own block only
  bool acquire = false;              // nothing behind it moves before it
  bool read_only = false;            // through the cache for constants
};

// False if a part is unknown.
bool read_qualifiers(const Parsed& p, Qualifiers& q);

int bytes_of(const std::string& type);

// The register under an address, read as wide as it is. The parser gives symbols a 64-bit slot.
bool bind_address(const Operand& o, Inst& inst, int k);

// The registers of a value, one for each element. `wide`: they hold 64 bits. False if they disagree.
bool bind_elements(const Operand& o, int count, int bytes, bool writes, int* slots, bool& wide);

// Families of memory instructions, each with its file.
bool bind_load_store(const Parsed& p, Inst& inst, bool writes_memory);
bool bind_atomic(const Parsed& p, Inst& inst);
bool bind_copy(const Parsed& p, Inst& inst);

}  // namespace ptx
