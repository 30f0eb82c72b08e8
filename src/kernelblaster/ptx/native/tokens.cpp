#include <cctype>
#include <cstdlib>
#include <stdexcept>

#include "parse.h"

namespace ptx {

void wrong(int line, const std::string& what) {
  throw std::runtime_error("PTX line " + std::to_string(line) + ": " + what);
}

namespace {

bool word_character(char c) { return isalnum((unsigned char)c) || strchr("_$%.", c); }

std::vector<Token> tokenize(const std::string& text) {
  std::vector<Token> tokens;
  int line = 1;
  bool assembly = false;
  auto push = [&](const std::string& word, bool quoted = false) { tokens.push_back({word, line, quoted, assembly}); };
  for (size_t i = 0; i < text.size();) {
    char c = text[i];
    if (c == '\n') ++line;
    if (isspace((unsigned char)c)) {
      ++i;
    } else if (text.compare(i, 2, "//") == 0) {
      if (text.compare(i, 19, "// begin inline asm") == 0) assembly = true;
      if (text.compare(i, 17, "// end inline asm") == 0) assembly = false;
      while (i < text.size() && text[i] != '\n') ++i;
    } else if (text.compare(i, 2, "/*") == 0) {
      size_t end = text.find("*/", i + 2);
      if (end == std::string::npos) wrong(line, "a comment does not end");
      for (; i < end + 2; ++i) line += text[i] == '\n';
    } else if (c == '"') {
      size_t end = text.find('"', i + 1);
      if (end == std::string::npos) wrong(line, "a string does not end");
      push(text.substr(i + 1, end - i - 1), true);
      i = end + 1;
    } else if (word_character(c)) {
      size_t start = i;
      while (i < text.size() && (word_character(text[i]) || text.compare(i, 2, "::") == 0)) {
        if (c == '.' && text[i] == '.' && i > start) break;   // `.reg.b16` is two directives
        i += text[i] == ':' ? 2 : 1;
      }
      push(text.substr(start, i - start));
    } else {
      push(std::string(1, c));
      ++i;
    }
  }
  push("");
  return tokens;
}

}  // namespace

Reader::Reader(const std::string& text) : tokens_(tokenize(text)) {}

std::string Reader::next() {
  if (at_ + 1 >= tokens_.size()) wrong(line(), "the text ends in the middle");
  return tokens_[at_++].text;
}

bool Reader::accept(const char* text) {
  if (peek() != text || tokens_[at_].quoted) return false;
  ++at_;
  return true;
}

void Reader::expect(const char* text) {
  if (!accept(text)) wrong(line(), std::string("expected '") + text + "', found '" + peek() + "'");
}

int64_t Reader::number() {
  bool negative = accept("-");
  std::string text = next();
  char* end = nullptr;
  int64_t value = (int64_t)strtoull(text.c_str(), &end, 0);
  if (end == text.c_str()) wrong(line(), "expected a number, found '" + text + "'");
  return negative ? -value : value;
}

uint64_t Reader::literal(int float_bytes) {
  bool negative = accept("-");
  std::string text = next();
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'f' || text[1] == 'F') && text.size() == 10)
    return strtoull(text.c_str() + 2, nullptr, 16) ^ (negative ? 0x80000000ull : 0);
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'd' || text[1] == 'D') && text.size() == 18)
    return strtoull(text.c_str() + 2, nullptr, 16) ^ (negative ? 1ull << 63 : 0);
  char* end = nullptr;
  if (text.compare(0, 2, "0x") && text.compare(0, 2, "0X") && text.find_first_of(".eE") != std::string::npos) {
    const double number = strtod(text.c_str(), &end) * (negative ? -1 : 1);
    const float narrow = (float)number;
    uint64_t bits = 0;
    if (*end) wrong(line(), "unknown number '" + text + "'");
    float_bytes == 4 ? memcpy(&bits, &narrow, 4) : memcpy(&bits, &number, 8);
    return bits;
  }
  uint64_t value = strtoull(text.c_str(), &end, 0);
  if (*end == 'U') ++end;
  if (*end) wrong(line(), "unknown number '" + text + "'");
  return negative ? (uint64_t)-(int64_t)value : value;
}

std::string Parsed::name() const {
  std::string result = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) result += "." + parts[i];
  return result;
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
      {"%globaltimer", GlobalTimer}, {"%dynamic_smem_size", DynamicSmem}, {"%total_smem_size", TotalSmem},
      {"%cluster_ctarank", ClusterRank}, {"%cluster_ctaid.x", RankX}, {"%cluster_ctaid.y", RankY},
      {"%cluster_ctaid.z", RankZ}, {"%cluster_nctarank", ClusterBlocks}, {"%cluster_nctaid.x", ClusterBlocksX},
      {"%cluster_nctaid.y", ClusterBlocksY}, {"%cluster_nctaid.z", ClusterBlocksZ}, {"%clusterid.x", ClusterX},
      {"%clusterid.y", ClusterY}, {"%clusterid.z", ClusterZ}, {"%nclusterid.x", ClustersX}, {"%nclusterid.y", ClustersY},
      {"%nclusterid.z", ClustersZ}, {"%envreg1", WorkspaceHigh}, {"%envreg2", WorkspaceLow}, {"%gridid", GridId},
      {"%clock_hi", ClockHigh}, {"%globaltimer_lo", TimerLow}, {"%globaltimer_hi", TimerHigh},
      {"%aggr_smem_size", AggregateSmem}, {"%is_explicit_cluster", Explicit}, {"%reserved_smem_offset_begin", Zero},
      {"%reserved_smem_offset_end", ReservedEnd}, {"%reserved_smem_offset_cap", ReservedEnd},
      {"%reserved_smem_offset_0", Zero}, {"%reserved_smem_offset_1", Zero}, {"%current_graph_exec", Zero}};
  static const std::map<std::string, int> all = [] {
    std::map<std::string, int> more = names;   // the driver's own registers and counters that nobody has started
    for (int k = 0; k < 32; ++k) more.emplace("%envreg" + std::to_string(k), Zero);
    for (int k = 0; k < 8; ++k) more.emplace("%pm" + std::to_string(k), Zero), more.emplace("%pm" + std::to_string(k) + "_64", Zero);
    return more;
  }();
  return all;
}

}  // namespace ptx
