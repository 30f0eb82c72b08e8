#include "library_calls.h"

#if defined(__x86_64__)
#include <string.h>

#include <algorithm>

namespace stepping {
namespace {

constexpr uint64_t kLongestText = 1 << 16;

const char* const kAsNumber = "computes with an address as with a number";
const char* const kReads = "has a library function read bytes of an address";
const char* const kPrints = "prints an address, or a part of one";
const char* const kNotFollowed = "calls a library function that cannot be followed: one that calls back, unwinds the stack, or is not known";

class Arguments {
 public:
  explicit Arguments(Sides& sides) : sides_(sides) { sides_.read_vectors(); }

  std::string finding(const char* takes) {
    for (const char* one = takes; *one; ++one) {
      std::string what = check(*one, one[1] == 'v');
      if (!what.empty()) return what;
      if (*one == '%') return "";
    }
    return "";
  }

 private:
  using Word = Pair;

  Word general(int number) const { return number < 6 ? sides_.general(kArguments[number]) : Word{}; }
  Word on_stack(int number) const {
    uint64_t above = 8 + 8 * (uint64_t)number;
    return sides_.memory({sides_.a.regs.rsp + above, sides_.b.regs.rsp + above});
  }
  bool number(Word word, int bytes = 8) const { return sides_.kind(word, bytes) == Kind::kEqual; }

  std::string check(char kind, bool list) {
    if (kind == 'd' || kind == 'f')
      return sides_.same_vector(vector_++, kind == 'd' ? 8 : 4) ? "" : kAsNumber;
    if (kind == '*' || kind == 'A' || kind == 'B') return "";
    if (kind == '!') return kNotFollowed;
    const Word word = general(general_++);
    const Word next = general(general_), after_next = general(general_ + 1), third = general(2);
    switch (kind) {
      case 'p': return sides_.kind(word) == Kind::kOther ? kAsNumber : "";
      case 'n': return number(word) ? "" : kAsNumber;
      case 'F': return word.a == sides_.a.says.files[0] || word.a == sides_.a.says.files[1] ? "" : kNotFollowed;
      case 'i': return number(word, 4) ? "" : kAsNumber;
      case 't': return text(word, kLongestText);
      case 'u': return number(next) ? text(word, std::min(next.a, kLongestText)) : kAsNumber;
      case 'U': return number(third) ? text(word, std::min(third.a, kLongestText)) : kAsNumber;
      case 'M': return number(third) ? memory(word, third.a) : kAsNumber;
      case 'm': return number(next) ? memory(word, next.a) : kAsNumber;
      case 'e': return next.a - word.a == next.b - word.b ? memory(word, next.a - word.a) : kAsNumber;
      case 'q': return number(after_next) ? memory(word, after_next.a) : kAsNumber;
      case 'w': {
        const Word times = after_next;
        return number(next) && number(times) ? memory(word, next.a * times.a) : kAsNumber;
      }
      case '8': return memory(word, 8);
      case 'o': return memory(word, 16);
      case 's': return object(word);
      case '%': return printed(word, list);
      default: return kNotFollowed;
    }
  }

  std::string memory(Word at, uint64_t bytes) const {
    if (sides_.kind(at) == Kind::kOther) return kAsNumber;
    return sides_.same_memory(at, bytes) ? "" : kReads;
  }
  // Up to the first zero byte, or `most`.
  std::string text(Word at, uint64_t most) const {
    if (sides_.kind(at) == Kind::kOther) return kAsNumber;
    for (uint64_t i = 0; i < most; ++i) {
      uint8_t x = 0, y = 0;
      if (!sides_.a.read(at.a + i, &x, 1) || !sides_.b.read(at.b + i, &y, 1)) return "";   // it will fail there
      if (x != y) return kReads;
      if (x == 0) return "";
    }
    return most < kLongestText ? "" : "has a library function read a text that is too long to be followed";
  }
  // A std::string: where its text is, and how long that is.
  std::string object(Word at) const {
    if (sides_.kind(at) == Kind::kOther) return kAsNumber;
    Word bytes = sides_.memory({at.a + 8, at.b + 8}), text = sides_.memory(at), most = sides_.memory({at.a + 16, at.b + 16});
    if (text.a != at.a + 16 && !number(most)) return kReads;   // how much room there is
    return number(bytes) ? memory(sides_.memory(at), bytes.a) : kReads;
  }

  // --- formatted text ---------------------------------------------------------------------------------

  // The next argument of a format: from registers, the stack, or a va_list.
  Word value(bool floating) {
    if (list_.a == 0) {
      if (!floating && general_ < 6) return general(general_++);
      if (floating && vector_ < 8) return sides_.vector_low(vector_++);
      return on_stack((int)used_stack_++);
    }
    Word taken = sides_.memory({list_.a + (floating ? 4 : 0), list_.b + (floating ? 4 : 0)}, 4);
    if (!number(taken, 4)) return {0, 1};
    uint64_t& used = floating ? used_vectors_ : used_general_;
    const uint64_t most = floating ? 176 : 48, step = floating ? 16 : 8, offset = taken.a + used;
    Word area = sides_.memory({list_.a + (offset < most ? 16 : 8), list_.b + (offset < most ? 16 : 8)});
    const uint64_t at = offset < most ? offset : used_stack_;
    if (offset < most) used += step;
    else used_stack_ += 8;
    return sides_.memory({area.a + at, area.b + at});
  }

  std::string printed(Word format, bool list) {
    std::string what = text(format, kLongestText);
    if (!what.empty()) return what;
    const Word into = general(0);   // not what it reads
    if (into.a <= format.a && format.a - into.a < kLongestText && general_ > 1) return kNotFollowed;
    if (list) list_ = general(general_);
    for (uint64_t at = format.a;;) {
      char c = 0;
      if (!next(at, c) || c == 0) return "";
      if (c != '%') continue;
      what = conversion(at);
      if (!what.empty()) return what;
    }
  }
  bool next(uint64_t& at, char& c) const { return sides_.a.read(at++, &c, 1); }

  std::string conversion(uint64_t& at) {
    char c = 0;
    uint64_t precision = kLongestText;
    bool precise = false, wide = false, wide_text = false;
    while (next(at, c) && c && strchr("-+ #0'123456789.*hljzt", c)) {
      if (c == '.') precise = true, precision = 0;
      else if (c == '*') {
        Word given = value(false);
        if (!number(given, 4)) return kPrints;
        if (precise) precision = (int32_t)given.a < 0 ? kLongestText : cut(given.a, 4);
      } else if (precise && c >= '0' && c <= '9') precision = precision * 10 + (uint64_t)(c - '0');
      wide |= strchr("ljzt", c) != nullptr;
      wide_text |= c == 'l';
    }
    switch (c) {
      case '%': return "";
      case 'd': case 'i': case 'o': case 'u': case 'x': case 'X': case 'c': return number(value(false), wide ? 8 : 4) ? "" : kPrints;
      case 'e': case 'E': case 'f': case 'F': case 'g': case 'G': case 'a': case 'A': return number(value(true)) ? "" : kPrints;
      case 's': return wide_text || (precise && precision >= kLongestText && precision != kLongestText) ? kNotFollowed
                                                                                       : text(value(false), precise ? precision : kLongestText);
      case 'p': return number(value(false)) ? "" : kPrints;
      default: return kNotFollowed;
    }
  }

  Sides& sides_;
  int general_ = 0, vector_ = 0;
  Word list_;
  uint64_t used_general_ = 0, used_vectors_ = 0, used_stack_ = 0;
};

}  // namespace

std::string arguments_finding(Sides& sides, const char* takes) { return Arguments(sides).finding(takes); }

}  // namespace stepping
#endif
