#include <algorithm>
#include <cctype>

#include "parse.h"

namespace ptx {

void Declarations::variable(std::map<std::string, Symbol>& into, bool external) {
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
    auto same = into.find(symbol.name);   // scopes of calls use the same names again
    if (symbol.space == Space::Param && same != into.end()) {
      symbol.bytes = std::max(symbol.bytes, same->second.bytes);
      symbol.align = std::max(symbol.align, same->second.align);
    }
    into[symbol.name] = symbol;
  } while (accept(","));
  expect(";");
}

void Declarations::initial(Symbol& symbol, int width) {
  symbol.initial.assign(symbol.bytes, 0);
  uint64_t place = 0;
  auto value = [&] {
    if (place + width > symbol.bytes) wrong(line(), "too many initial values");
    if (isdigit((unsigned char)peek()[0]) || peek() == "-") {
      uint64_t bits = literal(width);
      memcpy(&symbol.initial[place], &bits, width);
    } else {
      std::string name = next();
      if (name == "generic") { expect("("); name = next(); expect(")"); }
      symbol.pointers.push_back({place, name});
      take_address(name);
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

std::vector<Parameter> Declarations::parameters() {
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

}  // namespace ptx
