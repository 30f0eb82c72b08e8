"""A combine that the expert does not have, in one place: the logarithm of a sum of exponentials, with the
place of the largest element. Everything else, from a thread's loop to warps and vectors, follows from it."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from kernelblaster.api import load_task
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.combines.combine import Combine, Running
from kernelblaster.policies.expert.combines.placed import ARGMAX, PLACED
from kernelblaster.policies.expert.cuda.headers import Header
from kernelblaster.policies.expert.cuda.statements import Declaration, Statement, assign, const
from kernelblaster.policies.expert.cuda.terms import (
    Braces,
    Call,
    CudaType,
    DeviceFunction,
    LiteralTerm,
    Term,
    term,
)
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.expression import Reduced
from kernelblaster.policies.expert.kernel import Stage, Store
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.records import Candidate, Task, Verification

HEADER = Header(
    "log_sum_exp_at",
    """\
// The largest value with its place, and the sum of exponentials of the differences from it.
template <typename T>
struct LogSumExpAt {
  Placed<T> best;
  T sum;
};

struct JoinLogSumExpAt {
  template <typename T>
  __device__ LogSumExpAt<T> operator()(LogSumExpAt<T> a, LogSumExpAt<T> b) const {
    if (a.best.place < 0 || b.best.place < 0) return a.best.place < 0 ? b : a;
    const bool tie = b.best.value == a.best.value && b.best.place < a.best.place;
    const Placed<T> best = tie || b.best.value > a.best.value ? b.best : a.best;
    return {best, a.sum * exp(a.best.value - best.value) + b.sum * exp(b.best.value - best.value)};
  }
};""",
    (PLACED,),
)
SOURCE = """import torch, torch.nn as nn
rows, columns = 4096, 1024
SMALL = {"rows": 7, "columns": COLUMNS}
class Model(nn.Module):
    def forward(self, x):
        return torch.argmax(x, 1), torch.logsumexp(x, 1)
def get_inputs():
    return [torch.randn(rows, columns)]
def get_init_inputs():
    return []
"""


@dataclass(frozen=True)
class LogSumExpAt(Combine):
    """log(sum(exp(x))), with the place of the largest element beside."""

    @property
    def placed(self) -> bool:
        return True

    def type(self, running: Running) -> CudaType:
        return CudaType(f"LogSumExpAt<{running.element}>", HEADER)

    def start(self, running: Running) -> Term:
        return Braces((Braces((term(0), LiteralTerm("-1"))), term(0)))

    @property
    def join(self) -> DeviceFunction:
        return DeviceFunction("JoinLogSumExpAt", HEADER)

    def take(self, running: Running, into: Term, value: Term) -> list[Statement]:
        return [assign(into, Call(self.join(), (into, self.single(running, value))))]

    def single(self, running: Running, value: Term) -> Term:
        return Braces((Braces((value, running.place)), term(1)), self.type(running))

    def given(self, other: Combine) -> str | None:
        return "best" if other == ARGMAX else None

    def result(self, running: Running, of: Term) -> Declaration:
        total = of.field("best").field("value") + Call(LiteralTerm("log"), (of.field("sum"),))
        return const(running.element, running.stage, total)


def task_of(folder: Path, columns: int) -> Task:
    file = folder / "newcomer.py"
    file.write_text(SOURCE.replace("COLUMNS", str(columns)))
    return load_task(str(file))


def one_kernel(task: Task) -> Plan:
    """The plan of both outputs in one pass: the kernel of the places, with a stage of the new combine."""
    first = initial_plan(capture(task))
    kernel = next(found for found in first.kernels if found.stages and found.stages[0].combine == ARGMAX)
    (place,), (store,) = kernel.stages, kernel.stores
    total = Stage("total", LogSumExpAt(), place.body, place.axes)
    value = Store("out1", store.position, Reduced("total", "real"))
    both = replace(kernel, stages=(total, place), stores=(store, value))
    return replace(first, kernels=(both,)).with_kernels((both,))


@pytest.mark.parametrize(
    ("columns", "techniques"),
    [
        (37, ()),
        (37, ("warp_shuffle_reduction",)),
        (64, ("warp_shuffle_reduction", "vectorized_memory_access")),
    ],
)
def test_a_combine_in_one_place_is_right_by_threads_warps_and_vectors(
    judge: DeviceJudge, tmp_path: Path, columns: int, techniques: tuple[str, ...]
) -> None:
    task = task_of(tmp_path, columns)
    plan = one_kernel(task)
    for name in techniques:
        plan = next(load_techniques()[name](plan))
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome
