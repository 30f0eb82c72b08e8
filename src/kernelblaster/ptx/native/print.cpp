// printf and assert: functions that CUDA provides and nvcc leaves as calls.
#include <cstdio>

#include "access.h"
#include "frames.h"

namespace ptx {
namespace {

constexpr size_t kMostPrinted = 64 << 10;
constexpr size_t kMostText = 4096;

// Bytes that may be read from a generic address on.
uint64_t readable(Warp& w, int lane, uint64_t address) {
  Window local = local_window(w, lane), shared = shared_window(w);
  if (local.holds(address)) return local.start + local.bytes - address;
  if (shared.holds(address)) return shared.start + shared.bytes - address;
  const Allocation* found = w.block->launch->memory->find(address);
  return found ? found->start + found->bytes - address : 0;
}

std::string string_at(Warp& w, int lane, uint64_t address) {
  uint64_t most = std::min<uint64_t>(readable(w, lane, address), kMostText);
  if (!most) w.fault("out-of-bounds", text("a string at address 0x%llx", (unsigned long long)address), lane);
  return std::string((const char*)address, strnlen((const char*)address, most));
}

// Values lie in the buffer one after another, each aligned to its size.
class Values {
 public:
  Values(Warp& w, int lane, uint64_t start) : w_(w), lane_(lane), start_(start) {}
  template <typename T>
  T next() {
    at_ = (at_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    if (readable(w_, lane_, start_ + at_) < sizeof(T))
      w_.fault("out-of-bounds", "printf has more conversions than arguments", lane_);
    T value = read<T>(start_ + at_);
    at_ += sizeof(T);
    ++count;
    return value;
  }
  int count = 0;

 private:
  Warp& w_;
  int lane_;
  uint64_t start_, at_ = 0;
};

template <typename T>
std::string converted(const std::string& form, T value) {
  char buffer[512];
  snprintf(buffer, sizeof buffer, form.c_str(), value);
  return buffer;
}

// One conversion, from its % up to `at`, which is moved behind it.
std::string conversion(Warp& w, int lane, const std::string& format, size_t& at, Values& values) {
  std::string form = "%";
  bool wide = false;
  for (++at; at < format.size() && strchr("-+ #0123456789.*hlLjzt", format[at]); ++at) {
    if (format[at] == '*') form += std::to_string(std::max(-400, std::min(400, values.next<int>())));
    else if (strchr("ljzt", format[at])) wide = true;
    else if (!strchr("hL", format[at])) form += format[at];
  }
  if (at >= format.size() || form.size() > 7) return form;
  char kind = format[at++];
  if (kind == '%') return "%";
  if (strchr("di", kind)) return wide ? converted(form + "lld", values.next<long long>()) : converted(form + "d", values.next<int>());
  if (strchr("uxXo", kind))
    return wide ? converted(form + "ll" + kind, values.next<unsigned long long>()) : converted(form + kind, values.next<unsigned>());
  if (strchr("fFeEgGaA", kind)) return converted(form + kind, values.next<double>());
  if (kind == 'c') return converted(form + "c", values.next<int>());
  if (kind == 'p') return converted(form + "p", (void*)values.next<uint64_t>());
  if (kind == 's') return converted(form + "s", string_at(w, lane, values.next<uint64_t>()).c_str());
  return form + kind;
}

void print(Warp& w, const Inst& i) {
  each_lane(w.active, [&](int lane) {
    std::string format = string_at(w, lane, call_argument(w, i, lane, 0)), line;
    Values values(w, lane, call_argument(w, i, lane, 1));
    for (size_t at = 0; at < format.size();) {
      if (format[at] == '%') line += conversion(w, lane, format, at, values);
      else line += format[at++];
    }
    set_call_result(w, i, lane, (uint64_t)values.count);
    for (char& c : line)
      if ((unsigned char)c > 126) c = '?';
    Launch& launch = *w.block->launch;
    std::lock_guard<std::mutex> hold(launch.lock);
    launch.printed += line.substr(0, kMostPrinted - std::min(kMostPrinted, launch.printed.size()));
  });
}

void assertion(Warp& w, const Inst& i) {
  int lane = __builtin_ctz(w.active);
  std::string what = string_at(w, lane, call_argument(w, i, lane, 0)), file = string_at(w, lane, call_argument(w, i, lane, 1));
  w.fault("assert", what + " does not hold, " + file + text(" line %u", (unsigned)call_argument(w, i, lane, 2)), lane);
}

}  // namespace

uint64_t call_argument(Warp& w, const Inst& i, int lane, size_t k) {
  const Call& made = w.function->calls[(size_t)i.imm[0]];
  if (k >= made.arguments.size()) w.fault("invalid-argument", made.callee + " with too few arguments", lane);
  uint64_t value = 0;
  const Call::Copy& c = made.arguments[k];
  memcpy(&value, (const void*)(local_window(w, lane).start + w.frame->local_start + c.outside),
         std::min<uint64_t>(c.bytes, sizeof value));
  return value;
}

void set_call_result(Warp& w, const Inst& i, int lane, uint64_t value) {
  for (const Call::Copy& c : w.function->calls[(size_t)i.imm[0]].results) {
    uint64_t place = w.frame->local_start + c.outside;
    memcpy((void*)(local_window(w, lane).start + place), &value, std::min<uint64_t>(c.bytes, sizeof value));
    memset(w.local_written + (uint64_t)lane * local_window(w, lane).bytes + place, 1, c.bytes);
  }
}

Handler provided(const std::string& name) {
  return name == "vprintf" ? print : name == "__assertfail" ? assertion : heap_function(name);
}

}  // namespace ptx
