// Finds what calls call, once a text has been read.
#include <algorithm>
#include <set>

#include "frames.h"
#include "parse.h"

namespace ptx {
namespace {

constexpr int kMostCalls = 128;               // depth of a recursion
constexpr uint64_t kMostStack = 64 << 10;     // bytes of local memory for it
constexpr uint64_t kMostFrames = 1 << 26;     // bytes of local memory of a thread

// Pairs the variables that a call names with the parameters of the function that it calls.
bool pair(const Function& caller, const Function& callee, const std::vector<std::string>& names,
          const std::vector<Parameter>& parameters, std::vector<Call::Copy>& copies) {
  if (names.size() != parameters.size()) return false;
  for (size_t k = 0; k < names.size(); ++k) {
    auto outside = caller.variables.find(names[k]);
    auto inside = callee.variables.find(parameters[k].name);
    if (outside == caller.variables.end() || outside->second.space == Space::Shared || inside == callee.variables.end() ||
        outside->second.bytes < parameters[k].bytes)
      return false;
    copies.push_back({outside->second.address, inside->second.address, parameters[k].bytes});
  }
  return true;
}

bool own(const Function& caller, const std::vector<std::string>& names, std::vector<Call::Copy>& copies) {
  for (const std::string& name : names) {
    auto found = caller.variables.find(name);
    if (found == caller.variables.end() || found->second.space == Space::Shared) return false;
    copies.push_back({found->second.address, 0, found->second.bytes});
  }
  return true;
}

// A pointer may hold any function whose address is taken and whose parameters and results fit.
void link_pointer(Module& module, Function& f, Call& made) {
  for (const auto& [name, taken] : module.declared) {
    auto found = module.functions.find(name);
    if (!taken || found == module.functions.end() || found->second->entry) continue;
    const Function& callee = *found->second;
    Call::Target target;
    if (pair(f, callee, made.argument_names, callee.parameters, target.arguments) &&
        pair(f, callee, made.result_names, callee.results, target.results))
      made.targets[&callee] = target;
  }
}

void link_calls(Module& module, Function& f) {
  for (Inst& inst : f.code) {
    if (inst.parsed->op() != "call") continue;
    Call& made = f.calls[(size_t)inst.imm[0]];
    inst.klass = Class::Control;
    if (made.pointer >= 0) {
      link_pointer(module, f, made);
      inst.control = Control::Call;
      continue;
    }
    if (Handler handler = provided(made.callee)) {
      if (!own(f, made.argument_names, made.arguments) || !own(f, made.result_names, made.results))
        refuse(f, "call of " + made.callee + " with unknown parameters", inst.line);
      inst.run = handler;
      continue;
    }
    auto found = module.functions.find(made.callee);
    if (found == module.functions.end() || found->second->entry) {
      refuse(f, "call of " + made.callee + ", which has no body", inst.line);
      continue;
    }
    made.function = found->second.get();
    inst.control = Control::Call;
    if (!pair(f, *made.function, made.argument_names, made.function->parameters, made.arguments) ||
        !pair(f, *made.function, made.result_names, made.function->results, made.results))
      refuse(f, "call of " + made.callee + " with other parameters than it has", inst.line);
  }
}

using Functions = std::set<const Function*>;

Functions reached_from(const Function& kernel) {
  Functions reached;
  std::vector<const Function*> open = {&kernel};
  while (!open.empty()) {
    const Function* f = open.back();
    open.pop_back();
    auto reach = [&](const Function* callee) {
      if (callee && reached.insert(callee).second) open.push_back(callee);
    };
    for (const Call& made : f->calls) {
      reach(made.function);
      for (const auto& target : made.targets) reach(target.first);
    }
  }
  return reached;
}

// Longest chain of calls below f; kMostCalls where a function can reach itself.
int depth_below(const Function& f, Functions& open, std::map<const Function*, int>& known) {
  auto found = known.find(&f);
  if (found != known.end()) return found->second;
  if (open.size() > (size_t)kMostCalls || !open.insert(&f).second) return kMostCalls;
  int deepest = 0;
  for (const Call& made : f.calls) {
    if (made.function) deepest = std::max(deepest, 1 + depth_below(*made.function, open, known));
    for (const auto& target : made.targets) deepest = std::max(deepest, 1 + depth_below(*target.first, open, known));
  }
  open.erase(&f);
  return known[&f] = std::min(deepest, kMostCalls);
}

// Shared variables of the functions that a kernel reaches lie beside its own; dynamic memory comes after them.
void place_shared(Function& kernel, const Functions& reached) {
  uint64_t shared = 0;
  for (const auto& [name, v] : kernel.variables)
    if (v.space == Space::Shared && !v.dynamic) shared = std::max(shared, v.address + v.bytes);
  for (const Function* f : reached)
    for (const auto& [name, v] : f->variables) {
      if (v.space != Space::Shared || kernel.variables.count(name)) continue;
      Symbol mine = v;
      mine.address = shared = rounded(shared, v.align);
      if (!v.dynamic) shared += v.bytes;
      kernel.variables[name] = mine;
    }
  shared = rounded(shared, 16);
  for (auto& [name, v] : kernel.variables)
    if (v.space == Space::Shared && v.dynamic) v.address = shared = rounded(shared, v.align);
  kernel.shared_bytes = shared;
}

void prepare_kernel(Function& kernel) {
  Functions reached = reached_from(kernel), open;
  if (reached.empty()) return;
  std::map<const Function*, int> known;
  kernel.most_calls = depth_below(kernel, open, known);
  for (const Function* f : reached) {
    kernel.frame_bytes = std::max(kernel.frame_bytes, f->local_bytes);
    kernel.grain = std::min(kernel.grain, f->grain);
    kernel.reads_messages |= f->reads_messages;
    kernel.combines |= f->combines;
    if (!f->unsupported.empty()) refuse(kernel, f->unsupported, 0);
  }
  if (kernel.most_calls == kMostCalls && kernel.frame_bytes)
    kernel.most_calls = (int)std::min<uint64_t>(kMostCalls, std::max<uint64_t>(kMostStack / kernel.frame_bytes, 1));
  if (kernel.stack_bytes() > kMostFrames) refuse(kernel, "so much local memory for calls", 0);
  place_shared(kernel, reached);
}

}  // namespace

void link(Module& module) {
  for (auto& [name, f] : module.functions) link_calls(module, *f);
  for (auto& [name, f] : module.functions)
    if (f->entry) prepare_kernel(*f);
}

}  // namespace ptx
