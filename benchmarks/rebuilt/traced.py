"""Which operators a task's module really runs, in the form of the facts."""

from collections import Counter
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from kernelblaster.tasks.module_file import ModuleFile
from rebuilt.facts import Problem

MOVES = {"clone", "detach", "contiguous", "_to_copy", "copy_", "lift_fresh", "lift_fresh_copy", "alias"}
MOVES |= {"device", "empty", "zeros", "zeros_like", "empty_like", "_reshape_alias", "_unsafe_view"}
UNLISTED = {"tanh", "tanh_"}  # which the facts leave out
Key = tuple[str, Any, Any]


class _Log(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: Counter[Key] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        if not func.is_view and func.overloadpacket.__name__ not in MOVES | UNLISTED:
            name = f"{func.overloadpacket.__name__}.{func._overloadname}"
            self.seen[name, _shapes(args), _shapes(result)] += 1
        return result


def _shapes(value: Any) -> Any:
    """Tensors as their shapes, tuples for lists."""
    plain = pytree.tree_map(lambda v: tuple(v.shape) if isinstance(v, torch.Tensor) else v, value)
    return _tuples(plain)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(part) for part in value) if isinstance(value, list | tuple) else value


def operators_of(text: str, path: str) -> Counter[Key]:
    """How often each operator runs on which shapes, on tensors without content."""
    file = ModuleFile(text, path)
    log = _Log()
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        module, inputs = file.build(), file.inputs()
        with log:
            module(*inputs)
    return log.seen


def differences(problem: Problem, text: str) -> list[str]:
    """What the facts say and the rebuilt module does not do, and the reverse; empty if they agree."""
    wanted: Counter[Key] = Counter()
    for ran in problem.operators:
        if ran.operator.partition(".")[0] not in MOVES:
            wanted[ran.operator, ran.arguments, ran.result] += ran.times
    found = operators_of(text, f"<{problem.name}>")
    words = [f"missing {n} x {key}" for key, n in (wanted - found).items()]
    return words + [f"more {n} x {key}" for key, n in (found - wanted).items()]
