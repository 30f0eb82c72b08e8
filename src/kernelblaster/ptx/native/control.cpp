// Instructions that move lanes rather than values; execute.cpp carries them out.
#include "machine.h"

namespace ptx {

bool bind_control(const Parsed& p, Inst& inst, const Function& function) {
  const std::string& op = p.op();
  inst.klass = Class::Control;
  if (op == "bra") {
    auto label = p.operands.empty() ? function.labels.end() : function.labels.find(p.operands[0].text);
    if (label == function.labels.end()) return false;
    inst.control = Control::Branch;
    inst.imm[0] = label->second;
    return true;
  }
  if (op == "exit" || op == "ret") return inst.control = op == "ret" && !function.entry ? Control::Return : Control::Exit, true;
  if (op == "trap" || op == "brkpt") return inst.control = Control::Trap, true;
  if (op != "bar" && op != "barrier") return false;
  if (p.has("warp")) {
    if (p.parts.size() != 3 || p.operands.size() != 1) return false;
    if (p.operands[0].slot < 0 || p.operands[0].kind == Operand::Address) return false;
    inst.src[0] = source32(p.operands[0]);
    inst.klass = Class::Warp;
    return inst.control = Control::WarpSync, true;
  }
  inst.klass = Class::Barrier;
  if (p.has("cluster")) return inst.control = p.has("wait") ? Control::ClusterWait : Control::ClusterArrive, true;
  size_t first = p.has("red") ? 1 : 0;
  if (p.operands.size() > first) inst.src[0] = source32(p.operands[first]);
  size_t rest = p.operands.size() > first ? p.operands.size() - first - 1 : 0;
  if (p.has("sync") || p.has("arrive")) {
    if (rest > 0) inst.src[1] = source32(p.operands[first + 1]);
    inst.control = p.has("sync") ? Control::Barrier : Control::Arrive;
    return true;
  }
  if (!p.has("red") || p.operands.size() < 3) return false;
  if (rest > 1) inst.src[1] = source32(p.operands[first + 1]);
  const Operand& vote = p.operands.back();
  inst.src[2] = vote.slot;
  inst.flag[0] = vote.negated;
  inst.flag[1] = p.has("popc") ? 0 : p.has("and") ? 1 : 2;
  inst.dst[0] = target(p.operands[0]);
  inst.control = Control::Barrier;
  return true;
}

}  // namespace ptx
