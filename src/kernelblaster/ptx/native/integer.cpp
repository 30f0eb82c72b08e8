// Integer, bit, compare, select and move instructions.
//
// The meaning of most instructions is one plain function of a lane's values; its parameter and result
// types also say which operands the instruction takes. `Table` maps each full dotted opcode to such a
// function, so a spelling that is not in the table is refused and never approximated.
#include <initializer_list>

#include "integer_predicates.h"

namespace ptx {
namespace {

// ---- The table -----------------------------------------------------------------------------------

// Operands, destinations before the colon: w up to 32 bits, d 64, p predicate, P a predicate that may be
// absent, i an immediate for imm[0].
struct Entry {
  Handler run;
  std::string operands;
  uint8_t flag = 0;
  int64_t imm = 0;
  Class klass = Class::Integer;
};

// By width and kind of type: ".u32".
constexpr const char* kTypeNames[3][3] = {{".u16", ".u32", ".u64"}, {".s16", ".s32", ".s64"}, {".b16", ".b32", ".b64"}};
constexpr int width_index(size_t bytes) { return bytes == 2 ? 0 : bytes == 4 ? 1 : 2; }
template <class T>
constexpr const char* type_name() { return kTypeNames[std::is_signed_v<T>][width_index(sizeof(T))]; }
template <class T>
constexpr const char* bits_name() { return kTypeNames[2][width_index(sizeof(T))]; }

template <class... Ts, class Body>
void for_types(Body body) { (body(Ts{}), ...); }

struct Combining { const char* name; uint8_t how; };
constexpr Combining kCombining[] = {{"", Alone}, {".and", And}, {".or", Or}, {".xor", Xor}};

struct Table {
  std::unordered_map<std::string, Entry> entries;

  void put(const std::string& name, Entry entry) { entries.emplace(name, std::move(entry)); }
  // An instruction with this name and suffix (its type, mostly). What is not a template here is compiled once,
  // not for each of some 400 instructions.
  void put(const char* name, const char* suffix, Handler run, const char* operands, Class klass) {
    put(std::string(name) + suffix, {run, operands, 0, 0, klass});
  }
  template <auto F, bool Usual = true>
  void op(const char* name, const char* suffix = "", Class klass = Class::Integer) {
    put(name, suffix, Elementwise<F, Usual>::run, Elementwise<F, Usual>::operands, klass);
  }
  template <auto F>
  void rare(const char* name, const char* suffix = "") { op<F, false>(name, suffix); }

  Table() {
    arithmetic();
    carrying();
    bits();
    logic();
    moves();
    comparisons();
  }

  void arithmetic() {
    for_types<int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t>([this](auto zero) {
      using T = decltype(zero);
      constexpr bool usual = sizeof(T) >= 4, word = sizeof(T) == 4;
      const char* t = type_name<T>();
      op<add<T>, usual>("add", t);
      op<sub<T>, usual>("sub", t);
      op<mul_lo<T>, usual>("mul.lo", t);
      op<mul_hi<T>, word>("mul.hi", t);
      op<mad_lo<T>, usual>("mad.lo", t);
      rare<mad_hi<T>>("mad.hi", t);
      rare<sad<T>>("sad", t);
      op<div_of<T>, word>("div", t);
      op<rem_of<T>, word>("rem", t);
      op<min_of<T>, usual>("min", t);
      op<max_of<T>, usual>("max", t);
      if constexpr (std::is_signed_v<T>) {
        op<neg<T>, usual>("neg", t);
        op<abs_of<T>, usual>("abs", t);
      }
      if constexpr (sizeof(T) <= 4) {
        op<mul_wide<T>, word>("mul.wide", t);
        op<mad_wide<T>, word>("mad.wide", t);
      }
      if constexpr (sizeof(T) == 4) {
        rare<mul24_lo<T>>("mul24.lo", t);
        rare<mul24_hi<T>>("mul24.hi", t);
        rare<mad24_lo<T>>("mad24.lo", t);
        rare<mad24_hi<T>>("mad24.hi", t);
      }
    });
    rare<add_sat>("add.sat.s32");
    rare<sub_sat>("sub.sat.s32");
    rare<mad_hi_sat>("mad.hi.sat.s32");
    rare<mad24_hi_sat>("mad24.hi.sat.s32");
    // The manual writes min.relu.s32, CUDA's headers min.s32.relu; ptxas takes both.
    for (const char* t : {".relu.s32", ".s32.relu"}) {
      rare<min_relu>("min", t);
      rare<max_relu>("max", t);
    }
    for (const char* t : {".relu.s16x2", ".s16x2.relu"}) {
      rare<halves<int16_t, min_relu16>>("min", t);
      rare<halves<int16_t, max_relu16>>("max", t);
    }
    for_types<int16_t, uint16_t>([this](auto zero) {
      using T = decltype(zero);
      const char* t = std::is_signed_v<T> ? ".s16x2" : ".u16x2";
      rare<halves<T, add<T>>>("add", t);
      rare<halves<T, min_of<T>>>("min", t);
      rare<halves<T, max_of<T>>>("max", t);
    });
    rare<vabsdiff<uint8_t, false>>("vabsdiff4.u32.u32.u32");
    rare<vabsdiff<uint8_t, true>>("vabsdiff4.u32.u32.u32.add");
    rare<vabsdiff<uint16_t, false>>("vabsdiff2.u32.u32.u32");
    rare<vabsdiff<uint16_t, true>>("vabsdiff2.u32.u32.u32.add");
    dot_products<int8_t, int8_t>(".s32.s32");
    dot_products<int8_t, uint8_t>(".s32.u32");
    dot_products<uint8_t, int8_t>(".u32.s32");
    dot_products<uint8_t, uint8_t>(".u32.u32");
  }

  template <class A, class B>
  void dot_products(const char* types) {
    using A16 = std::conditional_t<std::is_signed_v<A>, int16_t, uint16_t>;
    op<dp4a<A, B>>("dp4a", types);
    rare<dp2a<A16, B, 0>>("dp2a.lo", types);
    rare<dp2a<A16, B, 16>>("dp2a.hi", types);
  }

  template <class T, Extended E>
  void carry_forms(const char* name, const char* half) {
    constexpr bool mad = E == Extended::MadLo || E == Extended::MadHi;
    static constexpr char d = letter<T>(), operands[] = {d, ':', d, d, mad ? d : '\0', '\0'};
    put_carry_forms(name, half, type_name<T>(), extended<T, E>, operands);
  }
  void put_carry_forms(const std::string& name, const std::string& half, const std::string& type, Handler run,
                       const char* operands) {
    put(name + half + ".cc" + type, {run, operands, CarryOut});
    put(name + "c" + half + type, {run, operands, CarryIn});
    put(name + "c" + half + ".cc" + type, {run, operands, CarryIn | CarryOut});
  }
  void carrying() {
    for_types<int32_t, uint32_t, int64_t, uint64_t>([this](auto zero) {
      using T = decltype(zero);
      carry_forms<T, Extended::Add>("add", "");
      carry_forms<T, Extended::Sub>("sub", "");
      carry_forms<T, Extended::MadLo>("mad", ".lo");
      carry_forms<T, Extended::MadHi>("mad", ".hi");
    });
  }

  void bits() {
    op<popc32>("popc.b32");
    rare<popc64>("popc.b64");
    op<clz32>("clz.b32");
    rare<clz64>("clz.b64");
    rare<brev32>("brev.b32");
    rare<brev64>("brev.b64");
    rare<fns>("fns.b32");
    for_types<int32_t, uint32_t, int64_t, uint64_t>([this](auto zero) {
      using T = decltype(zero);
      const char* t = type_name<T>();
      rare<bfind<T, false>>("bfind", t);
      rare<bfind<T, true>>("bfind.shiftamt", t);
      op<bfe<T>>("bfe", t);
      if constexpr (!std::is_signed_v<T>) op<bfi<T>>("bfi", bits_name<T>());
      if constexpr (sizeof(T) == 4) {
        rare<szext<T, true>>("szext.clamp", t);
        rare<szext<T, false>>("szext.wrap", t);
      }
    });
    rare<bmsk<true>>("bmsk.clamp.b32");
    rare<bmsk<false>>("bmsk.wrap.b32");
    op<prmt>("prmt.b32");
    rare<prmt_mode<0x6543543243213210>>("prmt.b32.f4e");
    rare<prmt_mode<0x0123701267015670>>("prmt.b32.b4e");
    rare<prmt_mode<0x3333222211110000>>("prmt.b32.rc8");
    rare<prmt_mode<0x3333322232113210>>("prmt.b32.ecl");
    rare<prmt_mode<0x3210221011100000>>("prmt.b32.ecr");
    rare<prmt_mode<0x3232101032321010>>("prmt.b32.rc16");
    op<shf<true, true>>("shf.l.clamp.b32");
    op<shf<true, false>>("shf.l.wrap.b32");
    op<shf<false, true>>("shf.r.clamp.b32");
    op<shf<false, false>>("shf.r.wrap.b32");
  }

  void logic() {
    for_types<uint16_t, uint32_t, uint64_t>([this](auto zero) {
      using T = decltype(zero);
      constexpr bool usual = sizeof(T) >= 4;
      const char* t = bits_name<T>();
      op<and_of<T>, usual>("and", t);
      op<or_of<T>, usual>("or", t);
      op<xor_of<T>, usual>("xor", t);
      op<not_of<T>, usual>("not", t);
      rare<cnot<T>>("cnot", t);
      op<shl<T>, usual>("shl", t);
      op<shr<T>, usual>("shr", t);
      op<shr<T>, usual>("shr", type_name<T>());
      op<shr<std::make_signed_t<T>>, usual>("shr", type_name<std::make_signed_t<T>>());
    });
    put("and.pred", {logic_predicate, "p:pp", And});
    put("or.pred", {logic_predicate, "p:pp", Or});
    put("xor.pred", {logic_predicate, "p:pp", Xor});
    put("not.pred", {not_predicate, "p:p"});
    put("mov.pred", {logic_predicate, "p:p", Alone, 0, Class::Move});
    put("lop3.b32", {lop3, "w:wwwi"});
    put("lop3.and.b32", {lop3, "wp:wwwip", And});
    put("lop3.or.b32", {lop3, "wp:wwwip", Or});
  }

  void put_choices(const std::string& type, char d, Handler move, Handler selp, Handler slct, Handler by_float,
                   Handler by_flushed) {
    put("mov" + type, {move, {d, ':', d}, 0, 0, Class::Move});
    put("selp" + type, {selp, {d, ':', d, d, 'p'}});
    put("slct" + type + ".s32", {slct, {d, ':', d, d, 'w'}});
    put("slct" + type + ".f32", {by_float, {d, ':', d, d, 'w'}});
    put("slct.ftz" + type + ".f32", {by_flushed, {d, ':', d, d, 'w'}});
  }
  void moves() {
    for_types<uint16_t, uint32_t, uint64_t>([this](auto zero) {
      using T = decltype(zero);
      for (const char* type : {bits_name<T>(), type_name<T>(), type_name<std::make_signed_t<T>>(),
                               sizeof(T) == 4 ? ".f32" : ".f64"})
        if (sizeof(T) > 2 || type[1] != 'f')
          put_choices(type, letter<T>(), Elementwise<move<T>>::run, selp<T>, Elementwise<slct<T>, false>::run,
                      Elementwise<slct_float<T, false>, false>::run, Elementwise<slct_float<T, true>, false>::run);
    });
  }

  void put_comparison(const std::string& compare, const std::string& type, char source, Handler setp, Handler set) {
    const std::string sources(2, source);
    for (const Combining& c : kCombining) {
      const std::string joined = compare + c.name, operands = ":" + sources + (c.how == Alone ? "" : "p");
      put("setp." + joined + type, {setp, "pP" + operands, c.how});
      for (const char* result : {"u32", "s32"})
        put("set." + joined + "." + result + type, {set, "w" + operands, c.how, 0xffffffff});
      put("set." + joined + ".f32" + type, {set, "w" + operands, c.how, 0x3f800000});
    }
  }
  template <class T, Compare C>
  void comparison(const char* compare, const char* type) {
    put_comparison(compare, type, letter<T>(), setp<T, C>, set<T, C>);
  }
  void comparisons() {
    for_types<int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t>([this](auto zero) {
      using T = decltype(zero);
      const char* t = type_name<T>();
      comparison<T, Compare::Eq>("eq", t);
      comparison<T, Compare::Ne>("ne", t);
      comparison<T, Compare::Lt>("lt", t);
      comparison<T, Compare::Le>("le", t);
      comparison<T, Compare::Gt>("gt", t);
      comparison<T, Compare::Ge>("ge", t);
      if constexpr (!std::is_signed_v<T>) {
        comparison<T, Compare::Lt>("lo", t);
        comparison<T, Compare::Le>("ls", t);
        comparison<T, Compare::Gt>("hi", t);
        comparison<T, Compare::Ge>("hs", t);
        comparison<T, Compare::Eq>("eq", bits_name<T>());
        comparison<T, Compare::Ne>("ne", bits_name<T>());
      }
    });
  }
};

// ---- Binding -------------------------------------------------------------------------------------

// The slot of a value of `bits` (up to 32, or 64), or -1 if the operand is no such value. A register of
// the other lane width is refused: its lanes lie elsewhere.
int value_slot(const Operand& o, int bits) {
  const bool value = o.kind == Operand::Register || o.kind == Operand::Immediate || o.kind == Operand::Symbol;
  if (!value || o.predicate || o.negated) return -1;
  if (o.kind == Operand::Register && o.width != 0 && (o.width > 32 ? o.width : 32) != (bits > 32 ? bits : 32))
    return -1;
  return bits == 64 ? source64(o) : source32(o);
}

bool bind_value(const Operand& o, int bits, int& slot) { return (slot = value_slot(o, bits)) >= 0; }

bool bind_target(const Operand& o, int bits, int& slot) {
  slot = -1;
  return o.kind == Operand::Sink || (o.kind == Operand::Register && bind_value(o, bits, slot));
}

bool bind_predicate(const Operand& o, Inst& inst, int k) {
  bool negated = o.negated;
  if (o.kind == Operand::Immediate) negated ^= o.bits != 0;
  else if (o.kind == Operand::Register && o.predicate && o.slot >= 0) inst.src[k] = o.slot;
  else return false;
  inst.imm[k] = negated ? 0xffffffff : 0;
  return true;
}

bool bind_predicate_target(const Operand& o, int& slot) {
  slot = -1;
  if (o.kind == Operand::Sink) return true;
  if (o.kind != Operand::Register || !o.predicate || o.negated) return false;
  return (slot = o.slot) >= 0;
}

bool bind_operands(const Parsed& p, const Entry& e, Inst& inst) {
  const size_t colon = e.operands.find(':');
  std::string letters = e.operands;
  letters.erase(colon, 1);
  size_t destinations = colon;
  const size_t optional = letters.find('P');
  if (optional != std::string::npos && p.operands.size() + 1 == letters.size()) {
    letters.erase(optional, 1);
    --destinations;
  }
  if (p.operands.size() != letters.size()) return false;
  int source = 0;
  for (size_t k = 0; k < letters.size(); ++k) {
    const Operand& o = p.operands[k];
    const bool wide = letters[k] == 'd', mask = letters[k] == 'p' || letters[k] == 'P';
    if (k < destinations) {
      int& slot = inst.dst[k];
      if (!(mask ? bind_predicate_target(o, slot) : bind_target(o, wide ? 64 : 32, slot))) return false;
    } else if (letters[k] == 'i') {
      if (o.kind != Operand::Immediate || o.bits > 255) return false;
      inst.imm[0] = (int64_t)o.bits;
    } else {
      if (!(mask ? bind_predicate(o, inst, source) : bind_value(o, wide ? 64 : 32, inst.src[source])))
        return false;
      ++source;
    }
  }
  return true;
}

template <class Whole, class Part>
bool bind_braces(const Operand& whole, const std::vector<Operand>& parts, bool packing, Inst& inst) {
  if (parts.size() * sizeof(Part) != sizeof(Whole)) return false;
  inst.run = packing ? pack<Whole, Part> : unpack<Whole, Part>;
  if (!(packing ? bind_target(whole, kBits<Whole>, inst.dst[0]) : bind_value(whole, kBits<Whole>, inst.src[0])))
    return false;
  for (size_t k = 0; k < parts.size(); ++k) {
    // A part of a width that is not this form's belongs to another one: {b16, b16} is no b64.
    if (parts[k].kind == Operand::Register && parts[k].width != 0 && parts[k].width != (int)kBits<Part>) return false;
    if (!(packing ? bind_value(parts[k], kBits<Part>, inst.src[k]) : bind_target(parts[k], kBits<Part>, inst.dst[k])))
      return false;
  }
  return true;
}

bool bind_half128(const Operand& o, int half, bool destination, int& slot) {
  if (o.kind == Operand::Register && o.width == 128 && o.slot >= 0) {
    slot = o.slot + half;
    return true;
  }
  if (o.kind != Operand::Vector || o.parts.size() != 2) return false;
  return destination ? bind_target(o.parts[half], 64, slot) : bind_value(o.parts[half], 64, slot);
}

// mov.b64 {lo, hi}, x and mov.b64 x, {lo, hi}, and their like; mov.b128 with registers or 64-bit halves.
bool bind_vector_move(const Parsed& p, Inst& inst) {
  if (p.parts.size() != 2 || p.operands.size() != 2) return false;
  const Operand &to = p.operands[0], &from = p.operands[1];
  if (p.type() == "b128") {
    inst.run = move128;
    for (int half = 0; half < 2; ++half)
      if (!bind_half128(to, half, true, inst.dst[half]) || !bind_half128(from, half, false, inst.src[half]))
        return false;
    return true;
  }
  const bool packing = from.kind == Operand::Vector;
  const Operand& whole = packing ? to : from;
  const std::vector<Operand>& parts = packing ? from.parts : to.parts;
  if (p.type() == "b64")
    return parts.size() == 2 ? bind_braces<uint64_t, uint32_t>(whole, parts, packing, inst)
                             : bind_braces<uint64_t, uint16_t>(whole, parts, packing, inst);
  if (p.type() == "b32")
    return parts.size() == 2 ? bind_braces<uint32_t, uint16_t>(whole, parts, packing, inst)
                             : bind_braces<uint32_t, uint8_t>(whole, parts, packing, inst);
  if (p.type() == "b16") return bind_braces<uint16_t, uint8_t>(whole, parts, packing, inst);
  return false;
}

// Cycles that an instruction of each class takes a warp which is not alone, as on a GPU and with the same spread.
uint64_t cycles(const Warp& w) {
  static constexpr uint64_t latencies[(int)Class::Count] = {6, 6, 24, 8, 18, 10, 5, 8, 480, 40, 620, 32, 40, 26, 34, 60};
  const Launch& launch = *w.block->launch;
  uint64_t sum = 0;
  for (int k = 0; k < (int)Class::Count; ++k) sum += w.counts.warp_instructions[k] * latencies[k];
  const uint64_t jitter = mixed(launch.draws.seed, (uint64_t)w.block->id[0] << 8 | (uint64_t)w.index) % 64;   // 75% to 123%
  return launch.clock_start + w.slept + sum * (96 + jitter) / 128 + jitter;
}

template <int slot, class T>
void read_clock(Warp& w, const Inst& inst) {
  const uint64_t now = cycles(w), start = w.block->launch->clock_start;
  const uint64_t time = w.block->launch->timer_start + (now - start) / 54 * 32;   // steps of 32 ns, at 1.7 GHz
  const uint64_t value = slot == Clock || slot == Clock64 ? now : slot == ClockHigh ? now >> 32 : slot == TimerHigh ? time >> 32 : time;
  assign<T>(w, inst.dst[0], [=](int) { return (T)value; });
}

Handler clock_of(const Parsed& p) {
  if (p.op() != "mov" || p.operands.size() != 2 || p.operands[1].kind != Operand::Register) return nullptr;
  switch (p.operands[1].slot) {
    case Clock: return read_clock<Clock, uint32_t>;
    case ClockHigh: return read_clock<ClockHigh, uint32_t>;
    case TimerLow: return read_clock<TimerLow, uint32_t>;
    case TimerHigh: return read_clock<TimerHigh, uint32_t>;
    case Clock64: return read_clock<Clock64, uint64_t>;
    case GlobalTimer: return read_clock<GlobalTimer, uint64_t>;
    default: return nullptr;
  }
}

}  // namespace

bool bind_integer(const Parsed& p, Inst& inst) {
  static const Table table;
  bool braces = p.type() == "b128";
  for (const Operand& o : p.operands) braces |= o.kind == Operand::Vector;
  if (braces) {
    if (p.op() != "mov") return false;
    inst.klass = Class::Move;
    return bind_vector_move(p, inst);
  }
  const auto found = table.entries.find(p.name());
  if (found == table.entries.end()) return false;
  const Entry& e = found->second;
  const Handler clock = clock_of(p);
  inst.run = clock ? clock : e.run;
  inst.klass = e.klass;
  inst.flag[0] = e.flag;
  inst.imm[0] = e.imm;
  return bind_operands(p, e, inst);
}

}  // namespace ptx
