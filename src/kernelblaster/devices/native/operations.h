// A launch list as the players read it (recording.h says how it is written). The judge has checked its form.
#pragma once
#include <cstdint>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <vector>

struct Operation {
  enum Kind { Attribute, Alloc, Free, Map, Launch, Fill, Copy, Upload } kind;
  std::string kernel;
  uint32_t grid[3], block[3], cluster[3];
  uint64_t shared = 0;
  bool cooperative = false, dependent = false;
  int scheduling = 0;
  int attribute = 0, value = 0;
  uint64_t target = 0, target_pitch = 0, source = 0, source_pitch = 0, width = 0, height = 1;
  std::vector<uint8_t> bytes;     // of the parameter buffer, or of an upload
  std::vector<int64_t> numbers;   // of a tensor map, as written, after its kind
  bool im2col = false;

  // Whether the stream is given something to do.
  bool works() const { return kind == Launch || kind == Fill || kind == Copy || kind == Upload; }
  const char* title() const {
    return kind == Launch ? kernel.c_str() : kind == Fill ? "[memset]" : "[memcpy]";
  }
};

inline std::vector<uint8_t> from_hex(const std::string& text) {
  auto digit = [](char c) { return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10); };
  std::vector<uint8_t> bytes(text == "-" ? 0 : text.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = (uint8_t)(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
  return bytes;
}

inline bool read_operation(const std::string& line, Operation* o) {
  std::istringstream words(line);
  std::string kind, hex;
  words >> kind;
  if (kind == "attribute") {
    o->kind = Operation::Attribute;
    words >> o->kernel >> o->attribute >> o->value;
  } else if (kind == "alloc") {
    o->kind = Operation::Alloc;
    words >> o->target >> o->width;
  } else if (kind == "free") {
    o->kind = Operation::Free;
    words >> o->target;
  } else if (kind == "tensormap") {
    o->kind = Operation::Map;
    std::string which;
    words >> o->value >> which;
    o->im2col = which == "im2col";
    for (int64_t number; words >> number;) o->numbers.push_back(number);
    words.clear();
  } else if (kind == "launch") {
    o->kind = Operation::Launch;
    int flags = 0;
    words >> o->kernel >> o->grid[0] >> o->grid[1] >> o->grid[2] >> o->block[0] >> o->block[1] >> o->block[2] >>
        o->shared >> flags >> o->cluster[0] >> o->cluster[1] >> o->cluster[2] >> o->scheduling >> hex;
    o->cooperative = flags & 1;
    o->dependent = flags & 2;
    o->bytes = from_hex(hex);
  } else if (kind == "fill") {
    o->kind = Operation::Fill;
    words >> o->target >> o->target_pitch >> o->value >> o->width >> o->height;
  } else if (kind == "copy") {
    o->kind = Operation::Copy;
    words >> o->target >> o->target_pitch >> o->source >> o->source_pitch >> o->width >> o->height;
  } else if (kind == "upload") {
    o->kind = Operation::Upload;
    words >> o->target >> hex;
    o->bytes = from_hex(hex);
    o->width = o->bytes.size();
  } else {
    return false;
  }
  return !words.fail();
}

// Where a global variable is for the host code, and where it really is.
struct Moved { uint64_t recorded, bytes, real; };

inline uint64_t moved(uint64_t address, const std::vector<Moved>& globals) {
  for (const Moved& g : globals)
    if (address >= g.recorded && address - g.recorded <= g.bytes) return address - g.recorded + g.real;
  return address;
}

// Puts the real addresses of globals into an operation: its own, and whatever aligned word of its bytes is one.
inline void move_globals(Operation* o, const std::vector<Moved>& globals) {
  if (globals.empty()) return;
  o->target = moved(o->target, globals);
  o->source = moved(o->source, globals);
  for (size_t at = 0; at + 8 <= o->bytes.size(); at += 8) {
    uint64_t word;
    memcpy(&word, &o->bytes[at], 8);
    word = moved(word, globals);
    memcpy(&o->bytes[at], &word, 8);
  }
}
