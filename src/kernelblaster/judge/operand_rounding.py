"""Which products PyTorch computes on operands rounded to TF32, and what that rounding does to a result.

PyTorch lets cuDNN round the float32 operands of convolutions to TF32 (11 significant bits), which it does at
some sizes and not at others. A candidate may, at every size, round as PyTorch does at the timed sizes:
docs/decisions/0019-one-rule-for-tf32.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernelblaster.errors import BadTask
from kernelblaster.judge.baseline import Baseline, ModuleBaseline
from kernelblaster.judge.eager_trace import trace
from kernelblaster.judge.precision import compare
from kernelblaster.records import Task
from kernelblaster.records.task import RoundedProducts
from kernelblaster.tasks.values import fill

# Operators of ATen by the setting of PyTorch that governs them, with the positions of their operands.
CONVOLUTIONS = {"convolution": (0, 1), "_convolution": (0, 1), "_cudnn_rnn": (0, 1)}
PRODUCTS = CONVOLUTIONS | {"mm": (0, 1), "bmm": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2)}
SPLITTER = 2.0**42 + 1  # leaves 53 - 42 = 11 significant bits
SEED = 20  # of the values on which the baseline is measured
REACHED = 0.5  # of what rounded operands would cost; float32 is some 500 times more precise
APART = 1.5  # factor from which rounding in all products is told from rounding in convolutions alone
MOST = 4.0  # times: operands that are cut off instead of rounded cost twice as much and a bias


@dataclass(frozen=True)
class OperandRounding:
    """How the baseline (PyTorch or the user's kernel) rounds float32 operands of products at the timed sizes.
    `products` says which operands it rounds to TF32: "none", those of "convolutions", or those of all
    "products", matrix products too. `ratio` is the baseline's error divided by the error that rounding to the
    nearest TF32 number causes: 1 if the baseline rounds to the nearest number, about 2 if it cuts off the low
    bits."""

    products: RoundedProducts = "none"
    ratio: float = 1.0


class RoundedOperands(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A context for a float64 run of a PyTorch module, in which the operands of `products` ("none",
    "convolutions" or all "products") are rounded to TF32."""

    def __init__(self, products: RoundedProducts) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._places = {"none": {}, "convolutions": CONVOLUTIONS, "products": PRODUCTS}[products]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        places = self._places.get(func.overloadpacket.__name__, ())
        given = [_rounded(value) if place in places else value for place, value in enumerate(args)]
        return func(*given, **(kwargs or {}))


def to_tf32(values: torch.Tensor) -> torch.Tensor:
    """Returns these float64 values rounded to the nearest numbers with 11 significant bits, as TF32 has; NaN
    and infinity are unchanged."""
    scaled = values * SPLITTER
    rounded = scaled - (scaled - values)
    return torch.where(torch.isfinite(rounded), rounded, values)


def expected_rounding(task: Task) -> RoundedProducts:
    """Returns which products eager PyTorch computes on TF32 operands at the timed sizes, according to
    PyTorch's rules and the operators that the task's module runs there: "convolutions" or "none". Nothing is
    measured. Also "none" for CUDA sources, and for modules that cannot be traced without values."""
    return _modelled(task).expected


def measured_rounding(task: Task, baseline: Baseline) -> OperandRounding:
    """Returns which float32 operands of products the baseline rounds to TF32 at the timed sizes, and how its
    error compares with that of rounding to the nearest TF32 number. The baseline's error on values like the
    task file's own is compared with the errors of float64 runs in which operands are rounded.

    The result says that no operands are rounded for a user's kernel, for a task without float32 products, and
    where there is no float64 reference. If GPU memory does not suffice for these runs, `products` follows
    from PyTorch's rules (`expected_rounding`), and `ratio` is 1.
    """
    if not isinstance(baseline, ModuleBaseline) or not _modelled(task).products:
        return OperandRounding()
    try:
        own, *coarse = _errors(task, baseline)
    except torch.cuda.OutOfMemoryError:
        torch.cuda.empty_cache()
        return OperandRounding(expected_rounding(task))
    return decide(own, *coarse)


def decide(own: float, convolutions: float, products: float) -> OperandRounding:
    """Returns which operands the baseline rounds to TF32, as it follows from three RMS errors. `own` is the
    baseline's error; `convolutions` is the error of a float64 run in which the operands of convolutions are
    rounded, `products` that of a run in which the operands of all products are.

    The result's `products` is "convolutions" if `own` is at least half of the error `convolutions` (REACHED).
    It is "products" instead if `own` is at least half of the error `products`, and that error is more than
    1.5 times as large as `convolutions` (APART). Otherwise it is "none". The result's `ratio` is `own`
    divided by the error of the run that was chosen, at least 1 and at most 4 (MOST); 1 for "none".
    """
    found: RoundedProducts = "none"
    if convolutions and own >= REACHED * convolutions:
        found = "convolutions"
    if products > APART * convolutions and own >= REACHED * max(products, APART * convolutions):
        found = "products"
    cost = {"none": 0.0, "convolutions": convolutions, "products": products}[found]
    return OperandRounding(found, min(MOST, max(1.0, own / cost)) if cost else 1.0)


def _errors(task: Task, baseline: ModuleBaseline) -> tuple[float, float, float]:
    """RMS errors, against a float64 run, of three computations at the timed sizes: the baseline (PyTorch in
    the task's precision), a float64 run with the operands of convolutions rounded to TF32, and one with those
    of matrix products rounded too. Of several outputs, the three errors of the one with the largest third
    error. Zeros if there is no float64 reference."""
    inputs = []
    for place, (tensor, pool) in enumerate(zip(task.signature.input_tensors, baseline.pools, strict=True)):
        value = torch.empty(
            task.primary.shape(tensor), dtype=getattr(torch, tensor.dtype), device=pool.values.device
        )
        fill(value, pool, "written", task.primary, SEED + place)
        inputs.append(value)
    parameters = list(baseline.parameters)
    own = baseline.computed(inputs, parameters)
    wide = [_wide(inputs), _wide(parameters)]
    truth = baseline.wide(*wide)
    if truth is None:
        return 0.0, 0.0, 0.0
    errors = [_rms(own, truth)]
    for products in ("convolutions", "products"):
        with RoundedOperands(products):
            coarse = baseline.wide(*wide)
        assert coarse is not None
        errors.append(_rms(coarse, truth))
    place = max(range(len(truth)), key=lambda output: errors[-1][output])
    return errors[0][place], errors[1][place], errors[2][place]


def _rms(outputs: Sequence[torch.Tensor], truth: Sequence[torch.Tensor]) -> list[float]:
    """The RMS error of each output against `truth`; 0 for integer outputs and where values are not finite."""
    found = [
        compare(one, exact).errors if exact.is_floating_point() else None
        for one, exact in zip(outputs, truth, strict=True)
    ]
    return [0.0 if errors is None else errors.rms for errors in found]


def _wide(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [t.double() if t.is_floating_point() else t for t in tensors]


def _rounded(value: Any) -> Any:
    """An argument of an operator with its operands rounded: a float64 tensor rounded to TF32, or a list of
    them; anything else unchanged."""
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    wide = isinstance(value, torch.Tensor) and value.dtype == torch.float64
    return to_tf32(value) if wide else value


@dataclass(frozen=True)
class _Modelled:
    """What a trace of the module says about a task: which products eager PyTorch computes on TF32 operands,
    and whether there are float32 products at all (True where the module cannot be traced)."""

    expected: RoundedProducts
    products: bool


_MODELLED: dict[str, _Modelled] = {}  # by digest of the task


def _modelled(task: Task) -> _Modelled:
    if task.digest not in _MODELLED:
        _MODELLED[task.digest] = _follow(task)
    return _MODELLED[task.digest]


def _follow(task: Task) -> _Modelled:
    if task.kind != "module":
        return _Modelled("none", products=False)
    try:
        steps = [step for step in trace(task, task.primary) if step is not None]
    except BadTask:
        return _Modelled("none", products=True)
    rounded = any(step.unit == "tf32" for step in steps)
    products = any(step.operations and step.unit in ("tf32", "fp32") for step in steps)
    return _Modelled("convolutions" if rounded else "none", products)
