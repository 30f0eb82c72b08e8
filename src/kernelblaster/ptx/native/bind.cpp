// What a function needs after its last instruction has been read: places for its variables, and a handler for
// each instruction.
#include <algorithm>

#include "access.h"
#include "parse.h"

namespace ptx {
namespace {

void note_grain(Function& f, const Parsed& p, const Inst& inst) {
  bool touches = inst.klass == Class::Load || inst.klass == Class::Store || inst.klass == Class::Shared ||
                 inst.klass == Class::Atomic;
  if (p.op() == "cp" || p.has("async")) f.grain = std::min(f.grain, p.has("tensor") ? 1 : 2);
  else if (p.op() == "mbarrier") f.grain = std::min(f.grain, 3);
  else if (touches && inst.flag[2] && !p.has("param") && !p.has("local"))
    f.grain = std::min(f.grain, __builtin_ctz(inst.flag[2]));
}

// `.param` variables declared in a body are a lane's own memory.
void scoped_parameters(const Function& f, Parsed& p) {
  for (auto& o : p.operands)
    if (o.kind == Operand::Address && (!f.entry || f.variables.count(o.text)))
      for (auto& part : p.parts)
        if (part == "param") part = "local";
}

void place_variables(const Module& module, Function& f, int line) {
  uint64_t local = 0, shared = 0;
  auto put = [](Symbol& symbol, uint64_t& total) {
    total = rounded(total, symbol.align);
    symbol.address = total;
    total += symbol.bytes;
  };
  for (auto& [name, symbol] : f.variables)
    if (symbol.space == Space::Shared) put(symbol, shared);
    else put(symbol, local);
  for (auto& [slot, name] : f.symbols) {
    auto global = module.globals.find(name);
    if (f.variables.count(name) || global == module.globals.end()) continue;
    if (global->second.space == Space::Shared && !global->second.dynamic) {
      Symbol mine = global->second;
      put(mine, shared);
      f.variables[name] = mine;
    }
  }
  shared = rounded(shared, 16);
  for (auto& [slot, name] : f.symbols) {
    auto global = module.globals.find(name);
    if (global == module.globals.end() || global->second.space != Space::Shared || !global->second.dynamic) continue;
    Symbol mine = global->second;   // dynamic shared memory begins where the static part ends
    shared = rounded(shared, mine.align);
    mine.address = shared;
    f.variables[name] = mine;
  }
  if (shared > (1u << 20) || local > (1u << 26)) wrong(line, "too much shared or local memory");
  f.shared_bytes = shared;
  f.local_bytes = rounded(local, 16);
}

// Products of warp groups, which only compute, and bulk reductions: without them, order and addresses are the same.
bool skippable(const Parsed& p) {
  return p.op() == "wgmma" || (p.op() == "cp" && p.parts.size() > 2 && p.parts[1] == "reduce" && !p.has("tensor"));
}

bool reads_clock(const Parsed& p) {
  for (const Operand& o : p.operands)
    if (o.kind == Operand::Register && (o.slot == Clock || o.slot == Clock64 || o.slot == GlobalTimer || o.slot == ClockHigh ||
                                        o.slot == TimerLow || o.slot == TimerHigh))
      return true;
  return false;
}

// A kernel that never comes here runs all the same.
void unknown(Warp& w, const Inst& inst) {
  if (w.block->launch->draws.skips && skippable(*inst.parsed)) return;
  throw Unknown{inst.parsed->name() + (inst.line ? " (line " + std::to_string(inst.line) + ")" : "") +
                (inst.assembly ? " in inline assembly" : "")};
}

void bind(Function& f, Inst& inst) {
  Parsed& p = *inst.parsed;
  if (p.op() == "call") return;
  inst.run = unknown;
  const Inst unbound = inst;
  for (auto& o : p.operands)
    if (o.kind == Operand::Address && (o.text == "compound" || (!o.parts.empty() && !p.has("tensor")))) return;
  if (p.op() != "mov" && reads_clock(p)) return;
  if (p.has("param")) scoped_parameters(f, p);
  if (bind_control(p, inst, f) || bind_integer(p, inst) || bind_float(p, inst) || bind_convert(p, inst) ||
      bind_memory(p, inst) || bind_warp(p, inst) || bind_tensor(p, inst)) {
    note_grain(f, p, inst);
    const bool shared = p.has("shared") || p.has("shared::cta") || p.has("shared::cluster");
    if (inst.flag[5] & kAcquires && (p.op() == "ld" || p.op() == "atom") && !shared) f.reads_messages = true;
    if ((p.op() == "atom" || p.op() == "red" || p.has("reduce")) && !shared) f.combines = true;
    return;
  }
  inst = unbound;   // what a family filled in before it gave up counts for nothing
}

}  // namespace

void refuse(Function& f, const std::string& why, uint32_t line) {
  if (f.unsupported.empty()) f.unsupported = why + (line ? " (line " + std::to_string(line) + ")" : "");
}

void bind_function(Module& module, Function& f, int line) {
  Inst end;  // falling off the end is an exit
  end.control = f.entry ? Control::Exit : Control::Return;
  end.klass = Class::Control;
  end.parsed = std::make_shared<Parsed>();
  end.parsed->parts = {"exit"};
  place_variables(module, f, line);
  for (auto& inst : f.code) bind(f, inst);
  f.code.push_back(end);
}

}  // namespace ptx
