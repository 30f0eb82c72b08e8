#include "qualifiers.h"

namespace ptx {

bool read_qualifiers(const Parsed& p, Qualifiers& q) {
  static const std::map<std::string, Space> spaces = {
      {"global", Space::Global}, {"shared", Space::Shared}, {"shared::cta", Space::Shared}, {"shared::cluster", Space::Cluster}, {"local", Space::Local},
      {"const", Space::Const}, {"param", Space::Param}, {"param::entry", Space::Param}};
  static const char* hints[] = {"ca", "cg", "cs", "lu", "wb", "wt", "weak", "cluster", "gpu", "sys",
                                "unified", "noftz"};
  static const char* strong[] = {"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio", "cv"};
  static const char* operations[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"};
  static const char* types[] = {"b8", "u8", "s8", "b16", "u16", "s16", "f16", "bf16", "b32", "u32", "s32", "f32",
                                "f16x2", "bf16x2", "b64", "u64", "s64", "f64", "b128"};
  auto among = [](const auto& list, const std::string& part) {
    return std::find(std::begin(list), std::end(list), part) != std::end(list);
  };
  for (size_t k = 1; k < p.parts.size(); ++k) {
    const std::string& part = p.parts[k];
    auto space = spaces.find(part);
    if (space != spaces.end()) q.space = space->second;
    else if (part == "v2" || part == "v4" || part == "v8") q.vector = part[1] - '0';
    else if (among(types, part)) q.type = part;
    else if (among(operations, part) && q.operation.empty()) q.operation = part;
    else if (part == "L2::cache_hint") q.cache_policy = true;
    else if (among(strong, part)) {
      q.strong = true;
      q.release |= part == "release" || part == "acq_rel";
      q.acquire |= part == "acquire" || part == "acq_rel";
    }
    else if (part == "nc") q.read_only = true;
    else if (part == "cta") q.in_block = true;
    else if (part.compare(0, 4, "L1::") && part.compare(0, 4, "L2::") && !among(hints, part)) return false;
  }
  return true;
}

int bytes_of(const std::string& type) {
  if (type == "b128") return 16;
  if (type == "f16x2" || type == "bf16x2") return 4;
  return std::stoi(type.substr(type.find_first_of("123468"))) / 8;
}

bool bind_address(const Operand& o, Inst& inst, int k) {
  if (o.kind != Operand::Address) return false;
  inst.imm[k] = o.offset;
  inst.imm[k + 1] = o.slot;
  if (o.slot < 0) {
    inst.flag[k] = (uint8_t)Base::Absolute;
  } else if (o.width == 32 || o.width == 64) {
    inst.flag[k] = (uint8_t)(o.width == 32 ? Base::Bits32 : Base::Bits64);
  } else {
    return false;
  }
  return true;
}

bool bind_elements(const Operand& o, int count, int bytes, bool writes, int* slots, bool& wide) {
  std::vector<Operand> alone(1, o);
  const std::vector<Operand>& parts = o.kind == Operand::Vector ? o.parts : alone;
  if ((int)parts.size() != count) return false;
  wide = bytes == 8;
  for (const Operand& part : parts) wide |= part.kind == Operand::Register && part.width == 64;
  for (int k = 0; k < count; ++k) {
    const Operand& part = parts[k];
    if (part.predicate) return false;
    if (part.kind == Operand::Register) {
      if (wide != (part.width == 64) || part.width > 64) return false;
      slots[k] = part.slot;
    } else if (writes) {
      if (part.kind != Operand::Sink) return false;
      slots[k] = -1;
    } else {
      if (part.kind != Operand::Immediate && part.kind != Operand::Symbol) return false;
      slots[k] = wide ? source64(part) : source32(part);
    }
  }
  return true;
}

}  // namespace ptx
