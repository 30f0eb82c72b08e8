// Decodes what compilers emit for host code: the integer instructions of x86-64 and SSE2. Whatever is not listed is kUnknown,
// which ends a stepped call with a finding, so that nothing is followed by mistake. The opcode maps are those of the
// architecture's manual (Intel SDM, volume 2, appendix A).
#include "instruction.h"

#include <cstring>

namespace stepping {
namespace {

struct Reader {
  const uint8_t* at;
  const uint8_t* end;
  bool failed = false;
  uint8_t byte() {
    if (at >= end) { failed = true; return 0; }
    return *at++;
  }
  int64_t number(int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) value |= (uint64_t)byte() << (8 * i);
    int unused = 64 - 8 * bytes;
    return (int64_t)(value << unused) >> unused;
  }
};

struct Prefixes {
  bool narrow = false, repeat = false, repeat_not = false, thread = false;
  uint8_t rex = 0;
  bool wide() const { return rex & 8; }
  int reg() const { return rex & 4 ? 8 : 0; }
  int index() const { return rex & 2 ? 8 : 0; }
  int base() const { return rex & 1 ? 8 : 0; }
};

struct ModRm { int mod = 0, reg = 0, rm = 0; };

class Decoder {
 public:
  Decoder(const uint8_t* code, size_t available) : in_{code, code + available}, begin_(code) {}

  Instruction run() {
    prefixes();
    uint8_t opcode = in_.byte();
    if (opcode == 0x0f) extended(in_.byte());
    else one_byte(opcode);
    out_.length = (int)(in_.at - begin_);
    if (in_.failed) out_.does = Does::kUnknown;
    bool results = out_.does == Does::kMove || out_.does == Does::kAdd || out_.does == Does::kAnd || out_.does == Does::kCompute;
    if (out_.writes == kNone && results && !out_.conditional && out_.target != kNone && !out_.target_is_xmm && out_.bytes >= 4)
      out_.writes = out_.target;
    return out_;
  }

 private:
  void prefixes() {
    for (;; in_.byte()) {
      uint8_t next = in_.at < in_.end ? *in_.at : 0;
      if (next == 0x66) p_.narrow = true;
      else if (next == 0xf3) p_.repeat = true;
      else if (next == 0xf2) p_.repeat_not = true;
      else if (next == 0x64) p_.thread = true;
      else if (next != 0x2e && next != 0x3e && next != 0x36 && next != 0x26 && next != 0xf0) break;
    }
    if (in_.at < in_.end && (*in_.at & 0xf0) == 0x40) p_.rex = in_.byte();
    out_.of_thread = p_.thread;
  }

  int width(uint8_t opcode) const { return opcode & 1 ? wide() : 1; }
  int wide() const { return p_.wide() ? 8 : p_.narrow ? 2 : 4; }

  ModRm modrm() {
    uint8_t byte = in_.byte();
    ModRm m{byte >> 6, (byte >> 3 & 7) | p_.reg(), byte & 7};
    if (m.mod == 3) { m.rm |= p_.base(); return m; }
    out_.memory = true;
    if (m.rm == 4) {
      uint8_t sib = in_.byte();
      int index = (sib >> 3 & 7) | p_.index(), base = (sib & 7) | p_.base();
      if (index != 4) out_.index = index, out_.scale = 1 << (sib >> 6);
      if ((sib & 7) == 5 && m.mod == 0) out_.displacement = in_.number(4);
      else out_.base = base;
    } else if (m.rm == 5 && m.mod == 0) {
      out_.relative = true;
      out_.displacement = in_.number(4);
    } else {
      out_.base = m.rm | p_.base();
    }
    if (m.mod == 1) out_.displacement = in_.number(1);
    if (m.mod == 2) out_.displacement = in_.number(4);
    return m;
  }

  // In byte operations without a REX prefix, registers 4 to 7 are ah, ch, dh, bh.
  void set(int number, int bytes, int& place, bool& high) {
    high = bytes == 1 && !p_.rex && number >= 4 && number < 8;
    place = high ? number - 4 : number;
  }

  void target_rm(const ModRm& m) {
    if (m.mod == 3) set(m.rm, out_.bytes, out_.target, out_.target_high);
    else out_.target_is_memory = true;
  }
  void source_rm(const ModRm& m) {
    if (m.mod == 3) set(m.rm, out_.bytes, out_.source, out_.source_high);
    else out_.source_is_memory = true;
  }
  void target_reg(const ModRm& m) { set(m.reg, out_.bytes, out_.target, out_.target_high); }
  void source_reg(const ModRm& m) { set(m.reg, out_.bytes, out_.source, out_.source_high); }
  void immediate(int bytes) {
    out_.has_immediate = true;
    out_.immediate = in_.number(bytes);
  }
  void settle_same(const ModRm& m) { out_.same = m.mod == 3 && m.rm == m.reg; }

  // One of the eight: add or adc sbb and sub xor cmp. Of a register with itself, xor, sub and sbb do not read it.
  void arithmetic(int which) {
    static const Does kinds[] = {Does::kAdd, Does::kCompute, Does::kCompute, Does::kCompute,
                                 Does::kAnd, Does::kAdd, Does::kCompute, Does::kCompare};
    out_.does = kinds[which & 7];
    out_.bitwise = which == 1 || which == 4 || which == 6;
    out_.low_alone = which != 2 && which != 3;
    out_.subtracts = which == 5;
    out_.reads_flags = which == 2 || which == 3;
    out_.sets_flags = true;
    if (out_.same && (which == 6 || which == 5 || which == 3)) out_.does = Does::kMove, out_.reads_target = false, out_.source = kNone;
  }

  void one_byte(uint8_t op) {
    if (op < 0x40 && (op & 7) < 6) {
      out_.bytes = width(op);
      if ((op & 7) >= 4) {
        out_.target = 0;
        immediate(out_.bytes == 8 ? 4 : out_.bytes);
      } else {
        ModRm m = modrm();
        settle_same(m);
        if (op & 2) target_reg(m), source_rm(m);
        else target_rm(m), source_reg(m);
      }
      arithmetic(op >> 3);
      return;
    }
    switch (op) {
      case 0x63: { if (p_.narrow && !p_.wide()) return; out_.bytes = 4; ModRm m = modrm(); source_rm(m); out_.reads_target = false; target_reg(m); out_.does = Does::kCompute; return; }
      case 0x68: if (!p_.narrow) move(), in_.number(4); return;
      case 0x6a: if (!p_.narrow) move(), in_.number(1); return;
      case 0x69: case 0x6b: compute_from_rm(wide()); immediate(op == 0x6b ? 1 : p_.narrow ? 2 : 4); return;
      case 0x80: case 0x81: case 0x83: {
        out_.bytes = width(op);
        ModRm m = modrm();
        target_rm(m);
        immediate(op == 0x81 ? (out_.bytes == 8 ? 4 : out_.bytes) : 1);
        arithmetic(m.reg & 7);
        return;
      }
      case 0x84: case 0x85: {
        out_.bytes = width(op);
        ModRm m = modrm();
        settle_same(m);
        target_rm(m), source_reg(m);
        test();
        return;
      }
      case 0xa8: case 0xa9: out_.bytes = width(op); out_.target = 0; immediate(out_.bytes == 8 ? 4 : out_.bytes); test(); return;
      case 0x86: case 0x87: {
        out_.bytes = width(op);
        ModRm m = modrm();
        target_rm(m);
        source_reg(m);
        move();
        narrow();
        out_.also = 1u << out_.source | (m.mod == 3 ? 1u << out_.target : 0);
        return;
      }
      case 0x88: case 0x89: { out_.bytes = width(op); ModRm m = modrm(); target_rm(m); source_reg(m); move(); narrow(); return; }
      case 0x8a: case 0x8b: { out_.bytes = width(op); ModRm m = modrm(); target_reg(m); source_rm(m); move(); narrow(); return; }
      case 0x8d: {
        out_.bytes = wide();
        ModRm m = modrm();
        target_reg(m);
        out_.reads_target = false;
        out_.load_effective = true;
        out_.does = m.mod == 3 ? Does::kUnknown : Does::kAdd;
        return;
      }
      case 0x8f: if (!p_.narrow && (modrm().reg & 7) == 0) move(); return;
      case 0x98: case 0x99: if (!p_.narrow) out_.writes = op == 0x98 ? 0 : 2; out_.bytes = wide(); out_.source = 0; out_.bytes = op == 0x98 ? out_.bytes / 2 : out_.bytes; out_.does = Does::kCompute; return;
      case 0xa4: case 0xa5: case 0xaa: case 0xab: case 0xac: case 0xad:
        if (p_.repeat_not) return;
        out_.bytes = width(op);
        out_.does = Does::kString;
        out_.repeats = p_.repeat;
        out_.loads = op < 0xa8 || op >= 0xac;
        out_.stores = op < 0xac;
        out_.also = (out_.loads ? 1u << 6 : 1u) | (out_.stores ? 1u << 7 : 0) | (p_.repeat ? 1u << 1 : 0);
        if (!out_.stores && out_.bytes >= 4) out_.writes = 0;
        return;
      case 0xc0: case 0xc1: case 0xd0: case 0xd1: case 0xd2: case 0xd3: {
        out_.bytes = width(op);
        ModRm m = modrm();
        target_rm(m);
        if (op < 0xd0) immediate(1);
        if (op >= 0xd2) out_.also = 1u << 1;
        out_.does = Does::kCompute;
        out_.reads_flags = (m.reg & 7) == 2 || (m.reg & 7) == 3;
        return;
      }
      case 0xc2: if (!p_.narrow) move(), in_.number(2); return;
      case 0xc3: if (!p_.narrow) move(), out_.returns = true; return;
      case 0xc9: if (!p_.narrow) move(), out_.also = 1u << 5; return;
      case 0xc6: case 0xc7: { out_.bytes = width(op); ModRm m = modrm(); if (m.mod == 3 && out_.bytes >= 4) out_.writes = m.rm; in_.number(out_.bytes == 8 ? 4 : out_.bytes); move(); return; }
      case 0xe0: case 0xe1: case 0xe2: case 0xe3: out_.source = 1; out_.does = Does::kCompute; out_.reads_flags = op < 0xe2; in_.number(1); return;
      case 0xe8: case 0xe9: if (!p_.narrow) move(), in_.number(4); return;
      case 0xeb: if (!p_.narrow) move(), in_.number(1); return;
      case 0xf6: case 0xf7: group_three(op); return;
      case 0xfe: case 0xff: group_five(op); return;
      default: break;
    }
    if (op >= 0x50 && op < 0x58) { if (!p_.narrow) move(), out_.also = 1u << ((op & 7) | p_.base()); return; }
    if (op >= 0x58 && op < 0x60) { if (!p_.narrow) move(), out_.writes = (op & 7) | p_.base(); return; }
    if (op >= 0x70 && op < 0x80) { if (p_.narrow) return; condition(op); in_.number(1); return; }
    if (op >= 0x90 && op < 0x98) { move(); if (int r = (op & 7) | p_.base()) out_.also = 1u | 1u << r; return; }
    if (op >= 0xb0 && op < 0xb8) { move(); in_.number(1); return; }
    if (op >= 0xb8 && op < 0xc0) {
      move();
      if (!p_.narrow) out_.writes = (op & 7) | p_.base();
      in_.number(p_.wide() ? 8 : p_.narrow ? 2 : 4);
      return;
    }
    if (op >= 0xd8 && op < 0xe0) x87(op);
  }

  // What x87 instructions load must be the same in both, so that their registers are. Those that load or store all of its
  // state are not followed.
  void x87(uint8_t op) {
    ModRm m = modrm();
    int which = m.reg & 7;
    out_.reads_target = false;
    if (m.mod == 3) {
      out_.does = Does::kMove;
      out_.reads_flags = op == 0xda || op == 0xdb;   // fcmov
      return;
    }
    static const int bytes[8][8] = {   // 0: not followed
        {4, 4, 4, 4, 4, 4, 4, 4}, {4, 0, 4, 4, 0, 2, 0, 2}, {4, 4, 4, 4, 4, 4, 4, 4}, {4, 4, 4, 4, 0, 10, 0, 10},
        {8, 8, 8, 8, 8, 8, 8, 8}, {8, 8, 8, 8, 0, 0, 0, 2}, {2, 2, 2, 2, 2, 2, 2, 2}, {2, 2, 2, 2, 10, 8, 10, 8}};
    out_.bytes = bytes[op - 0xd8][which];
    if (out_.bytes == 0) return;
    bool stores = (op & 1) && which != 0 && which != 5 && !(op == 0xdf && which == 4);
    out_.source_is_memory = !stores;
    out_.does = stores ? Does::kMove : Does::kCompute;
  }

  void group_three(uint8_t op) {
    out_.bytes = width(op);
    ModRm m = modrm();
    int which = m.reg & 7;
    target_rm(m);
    if (which < 2) immediate(out_.bytes == 8 ? 4 : out_.bytes), test();
    else out_.does = Does::kCompute;
    out_.low_alone = which == 2 || which == 3;   // not, neg
    out_.sets_flags = which == 3 || which < 2;
    if (which >= 4) out_.also = which >= 6 ? 1u | 1u << 2 : 1u;
    if (which >= 6 && out_.bytes == 1) out_.also = 1u;
  }

  void group_five(uint8_t op) {
    out_.bytes = width(op);
    ModRm m = modrm();
    int which = m.reg & 7;
    if (which < 2) target_rm(m), immediate_one(), out_.does = Does::kAdd;
    else if (op == 0xff && (which == 2 || which == 4 || which == 6) && !p_.narrow) {
      move();
      if (m.mod == 3) out_.also = 1u << m.rm;
    }
  }
  void test() { out_.does = Does::kTest, out_.sets_flags = true; }
  void immediate_one() { out_.has_immediate = true; out_.immediate = 1; }

  void condition(uint8_t op) { move(), out_.reads_flags = true, out_.asks_equality = (op & 14) == 4; }
  void move() { out_.does = Does::kMove; out_.reads_target = false; }
  void narrow() { out_.narrows = out_.bytes < 8; }
  void compute_from_rm(int bytes) {
    out_.bytes = bytes;
    ModRm m = modrm();
    target_reg(m), source_rm(m);
    out_.reads_target = false;
    out_.does = Does::kCompute;
  }

  // An xmm instruction that computes: `unary` ones do not read their target.
  void vector(int bytes, bool unary) {
    out_.bytes = bytes;
    ModRm m = modrm();
    out_.target = m.reg;
    out_.target_is_xmm = true;
    out_.reads_target = !unary;
    if (m.mod == 3) out_.source = m.rm, out_.source_is_xmm = true;
    else out_.source_is_memory = true;
    settle_same(m);
    out_.does = Does::kVector;
  }
  int scalar() const { return p_.repeat ? 4 : p_.repeat_not ? 8 : 16; }

  // Which of several prefixes counts differs from instruction to instruction: two are known for bit counts alone.
  void extended(uint8_t op) {
    bool counts = op == 0xb8 || op == 0xbc || op == 0xbd;
    if ((p_.repeat && p_.repeat_not) || (p_.narrow && (p_.repeat || p_.repeat_not) && !counts)) return;
    two_bytes(op);
  }

  void two_bytes(uint8_t op) {
    if (op >= 0x80 && op < 0x90) { if (!p_.narrow) condition(op), in_.number(4); return; }
    if (op >= 0x90 && op < 0xa0) { modrm(); condition(op); return; }
    if (op >= 0x40 && op < 0x50) {
      out_.bytes = wide();
      ModRm m = modrm();
      source_rm(m);
      target_reg(m);
      condition(op);
      narrow();
      out_.conditional = true;
      return;
    }
    if (op >= 0xc8 && op < 0xd0) { out_.bytes = wide(); out_.target = (op & 7) | p_.base(); out_.does = Does::kCompute; return; }
    if (op == 0x0b || (op >= 0x18 && op < 0x20)) {   // ud2; hints, endbr64
      if (op != 0x0b) modrm();
      out_.memory = false;
      move();
      return;
    }
    switch (op) {
      case 0x10: case 0x11: case 0x12: case 0x13: case 0x14: case 0x15: case 0x16: case 0x17: case 0x28: case 0x29: case 0x2b:
        modrm(); move(); return;
      case 0x60: case 0x61: case 0x62: case 0x68: case 0x69: case 0x6a: case 0x6c: case 0x6d: case 0x6f: case 0x7f: case 0xd6: case 0xe7:
        if (!p_.narrow && !p_.repeat && !p_.repeat_not) return;   // MMX
        if (op == 0xd6 && !p_.narrow) return;
        modrm(); move(); return;
      case 0x6e: case 0x7e: moves_between(op); return;
      case 0x70: case 0xc6:
        if (op == 0x70 && !p_.narrow && !p_.repeat && !p_.repeat_not) return;   // MMX
        modrm(); in_.number(1); move(); return;
      case 0xc4: { out_.bytes = 2; ModRm m = modrm(); source_rm(m); in_.number(1); move(); narrow(); return; }
      case 0x2a: {
        if (!p_.repeat && !p_.repeat_not) return;
        out_.bytes = p_.wide() ? 8 : 4;
        ModRm m = modrm();
        source_rm(m);
        out_.reads_target = false;
        out_.does = Does::kCompute;
        return;
      }
      case 0x2c: case 0x2d: case 0x2e: case 0x2f: {
        if (op < 0x2e && !p_.repeat && !p_.repeat_not) return;   // MMX
        int bytes = op >= 0x2e ? (p_.narrow ? 8 : 4) : scalar();
        vector(bytes, op < 0x2e);
        if (op < 0x2e) out_.writes = out_.target, out_.target = kNone;
        else out_.sets_flags = true;
        return;
      }
      case 0x50: case 0xd7: if (op == 0xd7 && !p_.narrow) return; vector(16, true); out_.writes = out_.target; out_.target = kNone; return;
      case 0x51: case 0x52: case 0x53: vector(scalar(), true); return;
      case 0x5a: vector(!p_.narrow && !p_.repeat && !p_.repeat_not ? 8 : scalar(), true); return;
      case 0x5b: vector(16, true); return;
      case 0xe6: vector(p_.repeat ? 8 : 16, true); return;
      case 0x57: case 0xef: case 0x74: case 0x75: case 0x76: case 0xf8: case 0xf9: case 0xfa: case 0xfb:
        if (op == 0x57 ? p_.repeat || p_.repeat_not : !p_.narrow) return;
        vector(16, false);
        if (out_.same) move(), out_.source = kNone, out_.source_is_xmm = out_.target_is_xmm = false, out_.target = kNone;
        return;
      case 0x54: case 0x55: case 0x56: if (!p_.repeat && !p_.repeat_not) vector(16, false); return;
      case 0x58: case 0x59: case 0x5c: case 0x5d: case 0x5e: case 0x5f: vector(scalar(), false); return;
      case 0xc2: vector(scalar(), false); in_.number(1); return;
      case 0x71: case 0x72: case 0x73: {
        if (!p_.narrow) return;
        ModRm m = modrm();
        bool whole = op == 0x73 && ((m.reg & 7) == 3 || (m.reg & 7) == 7);   // by bytes: moves
        in_.number(1);
        if (whole) { move(); return; }
        out_.bytes = 16, out_.target = m.rm, out_.target_is_xmm = true, out_.does = Does::kVector;
        return;
      }
      case 0xa3: case 0xab: case 0xb3: case 0xbb: case 0xc0: case 0xc1: case 0xa5: case 0xad: case 0xa4: case 0xac: {
        out_.bytes = op == 0xc0 ? 1 : wide();
        ModRm m = modrm();
        if (m.mod != 3 && (op & 7) == 3) return;   // a bit of memory, wherever the register says
        target_rm(m), source_reg(m);
        if (op == 0xa5 || op == 0xad) out_.also = 1u << 1;
        if (op == 0xa4 || op == 0xac) immediate(1);
        out_.does = Does::kCompute;
        return;
      }
      case 0xb0: case 0xb1: {
        out_.bytes = width(op);
        ModRm m = modrm();
        target_rm(m), source_reg(m);
        out_.also = 1u;
        out_.does = Does::kCompute;
        return;
      }
      case 0xba: { out_.bytes = wide(); ModRm m = modrm(); target_rm(m); immediate(1); out_.does = Does::kCompute; return; }
      case 0xaf: { out_.bytes = wide(); ModRm m = modrm(); target_reg(m); source_rm(m); out_.does = Does::kCompute; return; }
      case 0xb8: case 0xbc: case 0xbd: compute_from_rm(wide()); out_.conditional = op != 0xb8 && !p_.repeat; return;   // of zero, bsf and bsr keep their target
      case 0xb6: case 0xb7: case 0xbe: case 0xbf: {
        int written = wide();
        out_.bytes = op & 1 ? 2 : 1;
        ModRm m = modrm();
        source_rm(m);
        if (op < 0xb8) move(), out_.target = m.reg, narrow();
        else out_.reads_target = false, out_.does = Does::kCompute;
        if (written >= 4) out_.writes = m.reg;
        return;
      }
      case 0xae: {   // fences; the control word of floating point
        ModRm m = modrm();
        int which = m.reg & 7;
        if (p_.narrow || p_.repeat || p_.repeat_not) return;
        if (m.mod == 3 ? which >= 5 : which == 3) move();
        if (m.mod != 3 && which == 2) out_.bytes = 4, out_.source_is_memory = true, out_.reads_target = false, out_.does = Does::kCompute;
        return;
      }
      default: break;
    }
    if (op >= 0xd0 && op != 0xf7 && p_.narrow) vector(16, false);
    else if (p_.narrow && (op == 0x63 || op == 0x64 || op == 0x65 || op == 0x66 || op == 0x67 || op == 0x6b)) vector(16, false);
  }

  // movd and movq between general and xmm registers or memory.
  void moves_between(uint8_t op) {
    if (!p_.narrow && !p_.repeat) return;
    bool to_general = op == 0x7e && p_.narrow;
    out_.bytes = p_.repeat || p_.wide() ? 8 : 4;
    ModRm m = modrm();
    move();
    if (to_general && m.mod == 3) out_.target = m.rm;
    out_.narrows = out_.bytes < 8;
    if (op == 0x7e && p_.narrow) out_.source = m.reg, out_.source_is_xmm = true;
    else source_rm(m), out_.source_is_xmm = op == 0x7e && m.mod == 3;
  }

  Reader in_;
  const uint8_t* begin_;
  Prefixes p_;
  Instruction out_;
};

}  // namespace

Instruction decode(const uint8_t* code, size_t available) { return Decoder(code, available).run(); }

}  // namespace stepping
