// How judge and workers talk: commands are words on a line, answers are lines of JSON.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

inline std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += (unsigned char)c < 32 ? ' ' : c;
  }
  return result + "\"";
}

inline FILE* replies;   // where answers go

inline void answer(const std::string& fields) {
  fprintf(replies, "{%s}\n", fields.c_str());
  fflush(replies);
}

inline void fail(const std::string& what) { answer("\"fault\": " + quoted(what)); }

// Arguments as the candidate's trampoline takes them: the address of each value. A word is p<offset from
// `base`>, i<whole number>, d<number> or b<0 or 1>; their count comes first.
struct Arguments {
  std::vector<uint64_t> values;
  std::vector<void*> pointers;

  Arguments(std::istringstream& words, const char* base) {
    size_t count = 0;
    words >> count;
    for (std::string word; values.size() < count && words >> word;) {
      uint64_t value = 0;
      if (word[0] == 'd') {
        double number = strtod(word.c_str() + 1, nullptr);
        memcpy(&value, &number, 8);
      } else {
        value = (uint64_t)strtoll(word.c_str() + 1, nullptr, 10);
        if (word[0] == 'p') value += (uint64_t)(uintptr_t)base;
      }
      values.push_back(value);
    }
    for (auto& value : values) pointers.push_back(&value);
  }
};
