// From PTX text to Functions whose instructions are bound to handlers.
#include <cctype>
#include <cstdlib>
#include <stdexcept>

#include "machine.h"

namespace ptx {

std::string Parsed::name() const {
  std::string result = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) result += "." + parts[i];
  return result;
}

namespace {

struct Token {
  std::string text;
  int line = 0;
  bool quoted = false;
};

[[noreturn]] void wrong(int line, const std::string& what) {
  throw std::runtime_error("PTX line " + std::to_string(line) + ": " + what);
}

bool word_character(char c) { return isalnum((unsigned char)c) || strchr("_$%.", c); }

std::vector<Token> tokenize(const std::string& text) {
  std::vector<Token> tokens;
  int line = 1;
  for (size_t i = 0; i < text.size();) {
    char c = text[i];
    if (c == '\n') ++line;
    if (isspace((unsigned char)c)) {
      ++i;
    } else if (text.compare(i, 2, "//") == 0) {
      while (i < text.size() && text[i] != '\n') ++i;
    } else if (text.compare(i, 2, "/*") == 0) {
      size_t end = text.find("*/", i + 2);
      if (end == std::string::npos) wrong(line, "a comment does not end");
      for (; i < end + 2; ++i) line += text[i] == '\n';
    } else if (c == '"') {
      size_t end = text.find('"', i + 1);
      if (end == std::string::npos) wrong(line, "a string does not end");
      tokens.push_back({text.substr(i + 1, end - i - 1), line, true});
      i = end + 1;
    } else if (word_character(c)) {
      size_t start = i;
      while (i < text.size() && (word_character(text[i]) || text.compare(i, 2, "::") == 0)) i += text[i] == ':' ? 2 : 1;
      tokens.push_back({text.substr(start, i - start), line});
    } else {
      tokens.push_back({std::string(1, c), line});
      ++i;
    }
  }
  tokens.push_back({"", line});
  return tokens;
}

std::vector<std::string> split(const std::string& dotted) {
  std::vector<std::string> parts;
  size_t start = 0;
  for (size_t i = 0; i <= dotted.size(); ++i)
    if (i == dotted.size() || dotted[i] == '.') {
      parts.push_back(dotted.substr(start, i - start));
      start = i + 1;
    }
  return parts;
}

// Bits of a type name without its dot: "f32" -> 32. Zero if it is none.
int type_bits(const std::string& type) {
  static const std::map<std::string, int> known = {
      {"b8", 8},   {"u8", 8},   {"s8", 8},   {"b16", 16}, {"u16", 16}, {"s16", 16},  {"f16", 16},  {"bf16", 16},
      {"b32", 32}, {"u32", 32}, {"s32", 32}, {"f32", 32}, {"f16x2", 32}, {"bf16x2", 32}, {"tf32", 32},
      {"b64", 64}, {"u64", 64}, {"s64", 64}, {"f64", 64}, {"b128", 128}, {"pred", 1}};
  auto found = known.find(type);
  return found == known.end() ? 0 : found->second;
}

const std::map<std::string, int>& specials() {
  static const std::map<std::string, int> names = {
      {"%tid.x", TidX}, {"%tid.y", TidY}, {"%tid.z", TidZ}, {"%ntid.x", NtidX}, {"%ntid.y", NtidY}, {"%ntid.z", NtidZ},
      {"%ctaid.x", CtaidX}, {"%ctaid.y", CtaidY}, {"%ctaid.z", CtaidZ}, {"%nctaid.x", NctaidX}, {"%nctaid.y", NctaidY},
      {"%nctaid.z", NctaidZ}, {"%laneid", LaneId}, {"%warpid", WarpId}, {"%nwarpid", NWarpId}, {"%smid", SmId},
      {"%nsmid", NSmId}, {"%lanemask_eq", LaneMaskEq}, {"%lanemask_le", LaneMaskLe}, {"%lanemask_lt", LaneMaskLt},
      {"%lanemask_ge", LaneMaskGe}, {"%lanemask_gt", LaneMaskGt}, {"%clock", Clock}, {"%clock64", Clock64},
      {"%globaltimer", GlobalTimer}, {"%dynamic_smem_size", DynamicSmem}, {"%total_smem_size", TotalSmem}};
  return names;
}

uint64_t rounded(uint64_t value, uint64_t align) { return (value + align - 1) / align * align; }

class Parser {
 public:
  explicit Parser(const std::string& text) : tokens_(tokenize(text)), module_(std::make_shared<Module>()) {}

  std::shared_ptr<Module> run() {
    while (!peek().empty()) statement();
    return module_;
  }

 private:
  struct Name { int slot; int width; };

  std::vector<Token> tokens_;
  size_t at_ = 0;
  std::shared_ptr<Module> module_;
  std::shared_ptr<Function> function_;
  std::vector<std::map<std::string, Name>> scopes_;
  std::map<uint64_t, int> immediates_;
  std::map<std::string, int> symbol_slots_;
  uint32_t line_ = 0;
  uint16_t file_ = 0;

  const std::string& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)].text; }
  int line() const { return tokens_[at_].line; }
  std::string next() {
    if (at_ + 1 >= tokens_.size()) wrong(line(), "the text ends in the middle");
    return tokens_[at_++].text;
  }
  bool accept(const char* text) {
    if (peek() != text || tokens_[at_].quoted) return false;
    ++at_;
    return true;
  }
  void expect(const char* text) {
    if (!accept(text)) wrong(line(), std::string("expected '") + text + "', found '" + peek() + "'");
  }
  int64_t number() {
    bool negative = accept("-");
    std::string text = next();
    char* end = nullptr;
    int64_t value = (int64_t)strtoull(text.c_str(), &end, 0);
    if (end == text.c_str()) wrong(line(), "expected a number, found '" + text + "'");
    return negative ? -value : value;
  }

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

  void variable(std::map<std::string, Symbol>& into, bool external) {
    Symbol symbol;
    std::string space = next();
    symbol.space = space == ".global" ? Space::Global : space == ".const" ? Space::Const : space == ".shared" ? Space::Shared
                   : space == ".local" ? Space::Local : Space::Param;
    int bits = 0;
    while (peek()[0] == '.') {
      std::string word = next();
      if (word == ".align") symbol.align = (uint64_t)number();
      else if (int found = type_bits(word.substr(1))) bits = found;
      else if (word == ".v2") bits *= 2;
      else if (word == ".v4") bits *= 4;
      else if (word == ".attribute") { while (!accept(")")) next(); }
    }
    if (bits < 8 || !symbol.align || (symbol.align & (symbol.align - 1)) || symbol.align > 4096) wrong(line(), "a variable without a type");
    do {
      symbol.name = next();
      uint64_t count = 1;
      while (accept("[")) {
        if (peek() == "]") symbol.dynamic = true;
        else {
          uint64_t extent = (uint64_t)number();
          if (extent > (1ull << 40) || count * extent > (1ull << 40)) wrong(line(), "a variable is too large");
          count *= extent;
        }
        expect("]");
      }
      symbol.bytes = symbol.dynamic ? 0 : count * bits / 8;
      symbol.align = std::max<uint64_t>(symbol.align, std::min<uint64_t>(bits / 8, 16));
      if (accept("=")) initial(symbol, bits / 8);
      if (external && symbol.space != Space::Shared) symbol.dynamic = true;
      into[symbol.name] = symbol;
    } while (accept(","));
    expect(";");
  }

  void initial(Symbol& symbol, int width) {
    symbol.initial.assign(symbol.bytes, 0);
    uint64_t place = 0;
    auto value = [&] {
      if (place + width > symbol.bytes) wrong(line(), "too many initial values");
      if (isdigit((unsigned char)peek()[0]) || peek() == "-") {
        uint64_t bits = literal();
        memcpy(&symbol.initial[place], &bits, width);
      } else {
        std::string name = next();
        if (name == "generic") { expect("("); name = next(); expect(")"); }
        symbol.pointers.push_back({place, name});
      }
      place += width;
    };
    if (accept("{")) {
      int depth = 1;
      while (depth > 0) {
        if (accept("{")) ++depth;
        else if (accept("}")) --depth;
        else if (!accept(",")) value();
      }
    } else {
      value();
    }
  }

  // --- functions ------------------------------------------------------------------------------
  std::vector<Parameter> parameters() {
    std::vector<Parameter> result;
    uint64_t offset = 0;
    expect("(");
    while (!accept(")")) {
      Parameter parameter;
      int bits = 0;
      expect(".param");
      while (peek()[0] == '.') {
        std::string word = next();
        if (word == ".align") parameter.align = (uint64_t)number();
        else if (int found = type_bits(word.substr(1))) bits = found;
      }
      parameter.name = next();
      uint64_t count = 1;
      if (accept("[")) { count = (uint64_t)number(); expect("]"); }
      parameter.bytes = count * std::max(bits, 8) / 8;
      parameter.align = std::max<uint64_t>(parameter.align, std::max(bits, 8) / 8);
      if (parameter.bytes > 65536 || parameter.align > 4096) wrong(line(), "a parameter is too large");
      offset = rounded(offset, parameter.align);
      parameter.offset = offset;
      offset += parameter.bytes;
      result.push_back(parameter);
      accept(",");
    }
    return result;
  }

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
    }
    if (accept(";")) return;  // a declaration only
    if (!entry) function_->unsupported = "device functions that are not inlined (" + function_->name + ")";
    module_->functions[function_->name] = function_;
    function_->slots = SpecialCount;
    scopes_.assign(1, {});
    immediates_.clear();
    symbol_slots_.clear();
    line_ = 0;
    expect("{");
    for (int depth = 1; depth > 0;) {
      if (accept("{")) { ++depth; scopes_.push_back({}); }
      else if (accept("}")) { --depth; if (depth) scopes_.pop_back(); }
      else body_statement();
    }
    finish();
  }

  void body_statement() {
    const std::string word = peek();
    if (word == ".reg") return registers();
    if (word == ".loc") return location();
    if (word == ".shared" || word == ".local" || word == ".param") return variable(function_->variables, false);
    if (word[0] == '.') { while (!accept(";")) next(); return; }
    if (peek(1) == ":") {
      function_->labels[next()] = (int)function_->code.size();
      expect(":");
      return;
    }
    if (accept(";")) return;
    instruction();
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

  void location() {
    ++at_;
    file_ = (uint16_t)number();
    line_ = (uint32_t)number();
    number();
    while (accept(",")) {
      std::string word = next();
      if (word == "function_name") {
        next();
        if (accept("+")) number();
      } else if (word == "inlined_at") {
        // What a person wrote and can change is the place of the call in the candidate's own file.
        number(); number(); number();
      }
    }
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
    if (accept("@")) {
      inst.guard_negated = accept("!");
      std::string name = next();
      const Name* predicate = lookup(name);
      if (!predicate || predicate->width != 1) wrong(line(), "unknown predicate " + name);
      inst.guard = predicate->slot;
    }
    parsed->parts = split(next());
    if (parsed->parts[0] == "call") {
      unsupported("call", inst.line);
      while (!accept(";")) next();
      return;
    }
    while (!accept(";")) {
      parsed->operands.push_back(operand());
      while (accept("|")) parsed->operands.push_back(operand());
      if (peek() != ";") expect(",");
    }
    inst.parsed = parsed;
    function_->code.push_back(inst);
  }

  uint64_t literal() {
    bool negative = accept("-");
    std::string text = next();
    if (text.size() > 2 && text[0] == '0' && (text[1] == 'f' || text[1] == 'F') && text.size() == 10)
      return strtoull(text.c_str() + 2, nullptr, 16) ^ (negative ? 0x80000000ull : 0);
    if (text.size() > 2 && text[0] == '0' && (text[1] == 'd' || text[1] == 'D') && text.size() == 18)
      return strtoull(text.c_str() + 2, nullptr, 16) ^ (negative ? 1ull << 63 : 0);
    char* end = nullptr;
    uint64_t value = strtoull(text.c_str(), &end, 0);
    if (*end == 'U') ++end;
    if (*end) wrong(line(), "unknown number '" + text + "'");
    return negative ? (uint64_t)-(int64_t)value : value;
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
      o.bits = literal();
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
      o.width = o.slot == Clock64 || o.slot == GlobalTimer ? 64 : 32;
      return o;
    }
    if (o.text[0] == '%') { o.kind = Operand::Label; unsupported("register " + o.text, line_); return o; }
    if (module_->globals.count(o.text) || function_->variables.count(o.text)) {
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
    while (!accept("]")) { next(); o.text = "compound"; }
    return o;
  }

  void unsupported(const std::string& what, uint32_t line) {
    if (function_->unsupported.empty())
      function_->unsupported = what + (line ? " (line " + std::to_string(line) + ")" : "");
  }

  // --- after the last instruction -------------------------------------------------------------
  void finish() {
    Inst end;  // falling off the end is an exit
    end.control = Control::Exit;
    end.klass = Class::Control;
    end.parsed = std::make_shared<Parsed>();
    end.parsed->parts = {"exit"};
    place_variables();
    for (auto& inst : function_->code) bind(inst);
    function_->code.push_back(end);
  }

  void bind(Inst& inst) {
    Parsed& p = *inst.parsed;
    for (auto& o : p.operands)
      if (o.kind == Operand::Address && o.text == "compound") return unsupported(p.name(), inst.line);
    if (p.has("param")) scoped_parameters(p);
    if (bind_control(p, inst, *function_) || bind_integer(p, inst) || bind_float(p, inst) || bind_convert(p, inst) ||
        bind_memory(p, inst) || bind_warp(p, inst) || bind_tensor(p, inst))
      return;
    unsupported(p.name(), inst.line);
  }

  // `.param` variables declared in a body are a lane's own memory.
  void scoped_parameters(Parsed& p) {
    for (auto& o : p.operands)
      if (o.kind == Operand::Address && function_->variables.count(o.text))
        for (auto& part : p.parts)
          if (part == "param") part = "local";
  }

  void place_variables() {
    uint64_t local = 0, shared = 0;
    auto put = [](Symbol& symbol, uint64_t& total) {
      total = rounded(total, symbol.align);
      symbol.address = total;
      total += symbol.bytes;
    };
    for (auto& [name, symbol] : function_->variables)
      if (symbol.space == Space::Shared) put(symbol, shared);
      else put(symbol, local);
    for (auto& [slot, name] : function_->symbols) {
      auto global = module_->globals.find(name);
      if (function_->variables.count(name) || global == module_->globals.end()) continue;
      if (global->second.space == Space::Shared && !global->second.dynamic) {
        Symbol mine = global->second;
        put(mine, shared);
        function_->variables[name] = mine;
      }
    }
    shared = rounded(shared, 16);
    for (auto& [slot, name] : function_->symbols) {
      auto global = module_->globals.find(name);
      if (global == module_->globals.end() || global->second.space != Space::Shared || !global->second.dynamic) continue;
      Symbol mine = global->second;   // dynamic shared memory begins where the static part ends
      shared = rounded(shared, mine.align);
      mine.address = shared;
      function_->variables[name] = mine;
    }
    if (shared > (1u << 20) || local > (1u << 26)) wrong(line(), "too much shared or local memory");
    function_->shared_bytes = shared;
    function_->local_bytes = rounded(local, 16);
  }
};

}  // namespace

std::shared_ptr<Module> parse(const std::string& text) { return Parser(text).run(); }

}  // namespace ptx
