// From PTX text to Functions whose instructions are bound to handlers.
#include <algorithm>
#include <cctype>
#include <stdexcept>

#include "frames.h"
#include "parse.h"

namespace ptx {
namespace {

class Parser : Declarations {
 public:
  explicit Parser(const std::string& text) : Declarations(text), module_(std::make_shared<Module>()) {}

  std::shared_ptr<Module> run() {
    try {
      while (!peek().empty()) statement();
    } catch (const std::runtime_error& error) {
      if (!tokens_[at_].assembly) throw;
      throw std::runtime_error(std::string(error.what()) + " in inline assembly");
    }
    link(*module_);
    return module_;
  }

 private:
  struct Name { int slot; int width; };

  void take_address(const std::string& name) override {
    auto found = module_->declared.find(name);
    if (found != module_->declared.end()) found->second = true;
  }

  std::shared_ptr<Module> module_;
  std::shared_ptr<Function> function_;
  std::vector<std::map<std::string, Name>> scopes_;
  std::vector<int> scope_numbers_;                                // of the open scopes; the function's own is 0
  int scopes_begun_ = 0;
  std::vector<std::pair<size_t, std::vector<int>>> branches_;     // and the scopes that each is in
  std::map<uint64_t, int> immediates_;
  std::map<std::string, int> symbol_slots_;
  std::string type_;                                              // of the instruction that is being read
  uint32_t line_ = 0;
  uint16_t file_ = 0, home_ = 0;                                  // home_: the file of the function itself
  std::map<std::pair<uint16_t, uint32_t>, uint32_t> callers_;     // line of a header -> line that it is inlined at

  // --- module level ---------------------------------------------------------------------------
  void statement() {
    const std::string word = peek();
    if (word == ".version") { at_ += 2; return; }
    if (word == ".target") {
      ++at_;
      module_->target = next();
      while (accept(",")) next();
      return;
    }
    if (word == ".address_size") { at_ += 2; return; }
    if (word == ".file") return file();
    if (word == ".section") return section();
    if (word == ".pragma") { while (!accept(";")) next(); return; }
    bool external = false;
    while (peek() == ".visible" || peek() == ".extern" || peek() == ".weak" || peek() == ".common" || peek() == ".noreturn")
      external |= next() == ".extern";
    if (accept(".entry")) return function(true);
    if (accept(".func")) return function(false);
    if (peek() == ".global" || peek() == ".const" || peek() == ".shared") return variable(module_->globals, external);
    if (accept(";")) return;
    wrong(line(), "unknown directive '" + peek() + "'");
  }

  void file() {
    ++at_;
    size_t number_ = (size_t)number();
    if (number_ > 100000) wrong(line(), "file number out of range");
    if (module_->files.size() <= number_) module_->files.resize(number_ + 1);
    module_->files[number_] = next();
    while (accept(",")) next();
  }

  void section() {
    ++at_;
    next();
    expect("{");
    for (int depth = 1; depth > 0;) {
      std::string word = next();
      depth += word == "{" ? 1 : word == "}" ? -1 : 0;
    }
  }

  // --- functions ------------------------------------------------------------------------------
  void function(bool entry) {
    function_ = std::make_shared<Function>();
    function_->entry = entry;
    if (peek() == "(") function_->results = parameters();
    function_->name = next();
    if (peek() == "(") function_->parameters = parameters();
    if (!function_->parameters.empty()) {
      auto& last = function_->parameters.back();
      function_->parameter_bytes = last.offset + last.bytes;
    }
    while (peek() != "{" && peek() != ";") {
      std::string word = next();
      if (word == ".maxntid" || word == ".reqntid") {
        uint64_t threads = (uint64_t)number();
        while (accept(",")) threads *= (uint64_t)number();
        function_->max_threads = (int)std::min<uint64_t>(threads, 1 << 20);
      }
      if (word == ".reqnctapercluster") cluster();
    }
    if (!entry) module_->declared.emplace(function_->name, false);
    if (accept(";")) return;  // a declaration only
    module_->functions[function_->name] = function_;
    function_->slots = SpecialCount;
    scopes_.assign(1, {});
    scope_numbers_.assign(1, 0);
    branches_.clear();
    immediates_.clear();
    symbol_slots_.clear();
    line_ = 0;
    home_ = 0;
    callers_.clear();
    if (!entry) own_parameters();
    expect("{");
    for (int depth = 1; depth > 0;) {
      if (accept("{")) { ++depth; scopes_.push_back({}); scope_numbers_.push_back(++scopes_begun_); }
      else if (accept("}")) { --depth; if (depth) scopes_.pop_back(), scope_numbers_.pop_back(); }
      else body_statement();
    }
    for (auto& [inst, scopes] : branches_) resolve(*function_->code[inst].parsed, scopes);
    bind_function(*module_, *function_, line());
  }

  void cluster() {
    uint32_t* shape = function_->cluster;
    shape[0] = (uint32_t)number();
    for (int d = 1; d < 3; ++d) shape[d] = accept(",") ? (uint32_t)number() : 1;
    for (int d = 0; d < 3; ++d)
      if (shape[d] < 1 || shape[d] > 16 || shape[0] * shape[1] * shape[2] > 16)
        return refuse(*function_, "a cluster of this shape", 0);
  }

  // A device function's parameters and results are variables that its callers write and read.
  void own_parameters() {
    for (const auto* list : {&function_->parameters, &function_->results})
      for (const Parameter& p : *list) {
        Symbol& symbol = function_->variables[p.name];
        symbol.name = p.name;
        symbol.space = Space::Param;
        symbol.bytes = p.bytes;
        symbol.align = p.align;
      }
  }

  void body_statement() {
    const std::string word = peek();
    if (word == ".reg") return registers();
    if (word == ".loc") return location();
    if (word == ".shared" || word == ".local" || word == ".param") return variable(function_->variables, false);
    if (word[0] == '.') { while (!accept(";")) next(); return; }
    if (peek(1) == ":") {
      function_->labels[label(next(), scope_numbers_.back())] = (int)function_->code.size();
      expect(":");
      return;
    }
    if (accept(";")) return;
    instruction();
  }

  // Labels are known in the braces that they are in, as registers are.
  static std::string label(const std::string& name, int scope) { return scope ? name + "@" + std::to_string(scope) : name; }

  void resolve(Parsed& branch, const std::vector<int>& scopes) {
    if (branch.operands.empty()) return;
    std::string& name = branch.operands[0].text;
    for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope)
      if (function_->labels.count(label(name, *scope))) return void(name = label(name, *scope));
  }

  void registers() {
    ++at_;
    int bits = 0, lanes = 1;
    while (peek()[0] == '.') {
      std::string word = next();
      if (int found = type_bits(word.substr(1))) bits = found;
      else if (word == ".v2") lanes = 2;
      else if (word == ".v4") lanes = 4;
    }
    if (!bits || lanes != 1) wrong(line(), "a register without a known type");
    do {
      std::string name = next();
      int64_t count = -1;
      if (accept("<")) { count = number(); expect(">"); }
      if (count > 1000000 || (int64_t)function_->slots + count > 1000000) wrong(line(), "too many registers");
      int each = bits == 128 ? 2 : 1;
      if (count < 0) {
        scopes_.back()[name] = {function_->slots, bits};
        function_->slots += each;
      }
      for (int64_t i = 0; i < count; ++i) {
        scopes_.back()[name + std::to_string(i)] = {function_->slots, bits};
        function_->slots += each;
      }
    } while (accept(","));
    expect(";");
  }

  // What a person can change is in the file that the function is in, not in a header that was inlined into it.
  void location() {
    ++at_;
    file_ = (uint16_t)number();
    line_ = (uint32_t)number();
    number();
    bool inlined = false;
    while (accept(",")) {
      std::string word = next();
      if (word == "function_name") {
        next();
        if (accept("+")) number();
      } else if (word == "inlined_at") {
        inlined = true;
        const uint16_t file = (uint16_t)number();
        caller(file, (uint32_t)number());
        number();
      }
    }
    if (!inlined && !home_) home_ = file_;
  }

  void caller(uint16_t file, uint32_t line) {
    if (!home_ || file_ == home_) return;
    auto outer = callers_.find({file, line});
    uint32_t here = file == home_ ? line : outer != callers_.end() ? outer->second : 0;
    if (!here) return;
    callers_[{file_, line_}] = here;
    file_ = home_;
    line_ = here;
  }

  const Name* lookup(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      auto found = scope->find(name);
      if (found != scope->end()) return &found->second;
    }
    return nullptr;
  }

  // --- instructions ---------------------------------------------------------------------------
  void instruction() {
    Inst inst;
    auto parsed = std::make_shared<Parsed>();
    inst.line = line_;
    inst.file = file_;
    inst.assembly = tokens_[at_].assembly;
    if (accept("@")) {
      inst.guard_negated = accept("!");
      std::string name = next();
      const Name* predicate = lookup(name);
      if (!predicate || predicate->width != 1) wrong(line(), "unknown predicate " + name);
      inst.guard = predicate->slot;
    }
    parsed->parts = split(next());
    type_ = parsed->type();
    if (parsed->parts[0] == "call") call(inst);
    else while (!accept(";")) {
      parsed->operands.push_back(operand());
      while (accept("|")) parsed->operands.push_back(operand());
      if (peek() != ";") expect(",");
    }
    inst.parsed = parsed;
    if (parsed->op() == "bra") branches_.push_back({function_->code.size(), scope_numbers_});
    function_->code.push_back(inst);
  }

  std::vector<std::string> names() {
    std::vector<std::string> result;
    while (!accept(")")) {
      result.push_back(next());
      if (peek() != ")") expect(",");
    }
    return result;
  }

  // call (results), function, (arguments); both lists may be missing.
  void call(Inst& inst) {
    Call made;
    if (accept("(")) {
      made.result_names = names();
      expect(",");
    }
    made.callee = next();
    if (accept(",") && accept("(")) made.argument_names = names();
    if (const Name* pointer = lookup(made.callee)) made.pointer = pointer->slot;
    while (!accept(";")) next();
    inst.imm[0] = (int64_t)function_->calls.size();
    function_->calls.push_back(made);
  }

  int pair_for(uint64_t bits) {
    auto found = immediates_.find(bits);
    if (found != immediates_.end()) return found->second;
    int slot = function_->slots;
    function_->slots += 2;
    function_->constants.push_back({slot, bits});
    return immediates_[bits] = slot;
  }

  int pair_for(const std::string& symbol) {
    auto found = symbol_slots_.find(symbol);
    if (found != symbol_slots_.end()) return found->second;
    int slot = function_->slots;
    function_->slots += 2;
    function_->symbols.push_back({slot, symbol});
    return symbol_slots_[symbol] = slot;
  }

  Operand operand() {
    Operand o;
    if (accept("{")) {
      o.kind = Operand::Vector;
      while (!accept("}")) {
        o.parts.push_back(operand());
        accept(",");
      }
      return o;
    }
    if (accept("[")) return address();
    if (accept("(")) { while (!accept(")")) next(); return o; }
    if (accept("!")) {
      o = operand();
      o.negated = true;
      return o;
    }
    if (isdigit((unsigned char)peek()[0]) || peek() == "-") {
      o.kind = Operand::Immediate;
      o.bits = literal(type_ == "f32" ? 4 : 8);
      o.slot = pair_for(o.bits);
      return o;
    }
    o.text = next();
    if (o.text == "_") { o.kind = Operand::Sink; return o; }
    if (o.text == "WARP_SZ") { o.kind = Operand::Immediate; o.bits = kLanes; o.slot = pair_for(o.bits); return o; }
    if (const Name* name = lookup(o.text)) {
      o.kind = Operand::Register;
      o.slot = name->slot;
      o.width = name->width;
      o.predicate = name->width == 1;
      return o;
    }
    auto special = specials().find(o.text);
    if (special != specials().end()) {
      o.kind = Operand::Register;
      o.slot = special->second;
      const bool wide = o.slot == Clock64 || o.slot == GlobalTimer || o.slot == GridId || o.text == "%current_graph_exec" ||
                        o.text.find("_64") != std::string::npos;
      o.width = o.slot == Explicit ? 1 : wide ? 64 : 32;
      o.predicate = o.width == 1;
      return o;
    }
    if (o.text[0] == '%') { o.kind = Operand::Label; refuse(*function_, "register " + o.text + (tokens_[at_].assembly ? " in inline assembly" : ""), line_); return o; }
    if (module_->globals.count(o.text) || function_->variables.count(o.text)) {
      o.kind = Operand::Symbol;
      o.slot = pair_for(o.text);
      return o;
    }
    if (function_->entry)   // a parameter's address is its offset
      for (const auto& parameter : function_->parameters)
        if (parameter.name == o.text) {
          o.kind = Operand::Immediate;
          o.bits = parameter.offset;
          o.slot = pair_for(o.bits);
          return o;
        }
    if (module_->declared.count(o.text)) {
      take_address(o.text);
      o.kind = Operand::Symbol;
      o.slot = pair_for(o.text);
      return o;
    }
    o.kind = Operand::Label;
    return o;
  }

  Operand address() {
    Operand o;
    o.kind = Operand::Address;
    if (isdigit((unsigned char)peek()[0]) || peek() == "-") {
      o.offset = number();
    } else {
      o.text = next();
      if (const Name* name = lookup(o.text)) {
        o.slot = name->slot;
        o.width = name->width;
      } else if (module_->globals.count(o.text) || function_->variables.count(o.text)) {
        o.slot = pair_for(o.text) + 1;
        o.width = 64;
      } else {
        bool found = false;
        for (const auto& parameter : function_->parameters)
          if (parameter.name == o.text) { o.offset = (int64_t)parameter.offset; found = true; }
        if (!found) wrong(line(), "unknown name " + o.text);
      }
    }
    if (accept("+")) o.offset += number();
    else if (peek() == "-") o.offset += number();
    if (accept(",")) o.parts = operand().parts;   // [map, {x, y}]
    while (!accept("]")) { next(); o.text = "compound"; }
    return o;
  }

};

}  // namespace

std::shared_ptr<Module> parse(const std::string& text) { return Parser(text).run(); }

}  // namespace ptx
