// Reading PTX text: words, and what a function needs once it has been read.
#pragma once
#include <algorithm>

#include "machine.h"

namespace ptx {

struct Token {
  std::string text;
  int line = 0;
  bool quoted = false;
  bool assembly = false;   // inline assembly
};

// Ends the reading with a message that names the line.
[[noreturn]] void wrong(int line, const std::string& what);

std::vector<std::string> split(const std::string& dotted);
// Bits of a type name without its dot: "f32" -> 32. Zero if it is none.
int type_bits(const std::string& type);
const std::map<std::string, int>& specials();

// The words of a text, one after another.
class Reader {
 protected:
  explicit Reader(const std::string& text);

  std::vector<Token> tokens_;
  size_t at_ = 0;

  const std::string& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)].text; }
  int line() const { return tokens_[at_].line; }
  std::string next();
  bool accept(const char* text);
  void expect(const char* text);
  int64_t number();
  uint64_t literal(int float_bytes = 8);   // also floats, as their bit pattern; decimal ones of this size
};

// Variables and parameters as they are declared.
class Declarations : protected Reader {
 protected:
  using Reader::Reader;
  void variable(std::map<std::string, Symbol>& into, bool external);
  virtual void take_address(const std::string& name) = 0;   // of something that a variable points to
  std::vector<Parameter> parameters();

 private:
  void initial(Symbol& symbol, int width);
};

// Rounds up to a multiple of `align`.
inline uint64_t rounded(uint64_t value, uint64_t align) { return (value + align - 1) / align * align; }

// Notes why a function cannot be run, unless something was noted before.
void refuse(Function& function, const std::string& why, uint32_t line);
// After the last instruction: places variables and finds each instruction's handler.
void bind_function(Module& module, Function& function, int line);

}  // namespace ptx
