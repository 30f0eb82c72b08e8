"""The combine (operation of a reduction) of logcumsumexp: two values a and b become log(exp(a) + exp(b)),
without overflow."""

from dataclasses import dataclass

from kernelblaster.policies.expert.combines.combine import Combine, Running
from kernelblaster.policies.expert.cuda.headers import Header
from kernelblaster.policies.expert.cuda.statements import Statement, assign
from kernelblaster.policies.expert.cuda.terms import Call, DeviceFunction, LiteralTerm, Term

HEADER = Header(
    "log_add_exp",
    """\
// log(exp(a) + exp(b)) without overflow.
struct LogAddExp {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    const T most = a > b ? a : b, least = a > b ? b : a;
    if (isinf(most)) return a == b || least == least ? most : least;
    return most + log1p(exp(least - most));
  }
};""",
)


@dataclass(frozen=True)
class LogAddExp(Combine):
    """The reduction log(exp(x1) + exp(x2) + ...). Two values a and b at a time are joined to log(exp(a) +
    exp(b)), without overflow."""

    def start(self, running: Running) -> Term:
        return LiteralTerm("-INFINITY")

    @property
    def join(self) -> DeviceFunction:
        return DeviceFunction("LogAddExp", HEADER)

    def take(self, running: Running, into: Term, value: Term) -> list[Statement]:
        return [assign(into, Call(self.join(), (into, value)))]


LOG_ADD_EXP = LogAddExp()
