"""Finds out the shapes and types of a module's tensors by building and running it, mostly on tensors without
values (fake or meta), which takes no memory."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from kernelblaster.errors import BadTask
from kernelblaster.records.signature import Dtype
from kernelblaster.tasks.failures import why_forward_failed
from kernelblaster.tasks.foreign import time_limit
from kernelblaster.tasks.module_file import ModuleFile, call_module
from kernelblaster.tasks.module_state import cast, convert, dtype_name, state_of, unchanged
from kernelblaster.tasks.plain_attention import plain_attention
from kernelblaster.tasks.plain_forward import plain_forward
from kernelblaster.tasks.probe import Probe, Shapes
from kernelblaster.tasks.quiet import quiet
from kernelblaster.tasks.remembered import Remembered
from kernelblaster.tasks.shape_rules import ShapeRules

FORWARD_LIMIT_S = 120.0


@dataclass(frozen=True)
class Facts:
    """What one run of a module showed: the shapes and types of its tensors, from which the task's signature
    and workloads are derived. `inputs` are what get_inputs() returns: numbers and tensors, which are without
    values (fake or meta) unless the module was really run. `parameters` are (name, shape, type), buffers
    included; `outputs` are (shape, type). `probe` tries the module on inputs of other shapes: it tells
    whether the module accepts them, and the shapes of the outputs. `small`: the module was built with smaller
    constants than its file has."""

    inputs: tuple[Any, ...]
    parameters: tuple[tuple[str, tuple[int, ...], Dtype], ...]
    outputs: tuple[tuple[tuple[int, ...], Dtype], ...]
    probe: Probe
    small: bool = False

    @property
    def elements(self) -> int:
        """The number of elements that all inputs, parameters and outputs have together: a measure of the
        module's size."""
        shapes = list(self.probe.base) + [p[1] for p in self.parameters] + [o[0] for o in self.outputs]
        return sum(int(torch.Size(shape).numel()) for shape in shapes)


Where = Literal["cpu", "fake", "meta"]


def learn(file: ModuleFile, dtype: torch.dtype | None, *, on: Where = "fake", small: bool = False) -> Facts:
    """Returns the shapes and types of a module's inputs, parameters and outputs, and a probe that tries which
    other input shapes it accepts. To find them, the module is built and run once, with its floating tensors
    cast to `dtype` (None leaves their types).

    `on` says on which tensors it is run. "fake" ones have no values, so the run is cheap at any size. "meta"
    ones have none either and are much cheaper still, but some modules that are fine are refused. On the "cpu"
    the module is really run, which shows errors that the others miss. `small` is copied into the result; set
    it if `file` has smaller constants in place of its own (`ModuleFile.replaced`). Raises BadTask if the
    module cannot be built or run.
    """
    runner = _Runner(file, dtype, on)
    try:
        parameters = [(name, tuple(t.shape), dtype_name(t.dtype)) for name, t in runner.state.items()]
        results = [(tuple(o.shape), dtype_name(o.dtype)) for o in runner.outputs]
    except BadTask as error:
        raise BadTask(f"{file.path}: {error}") from error
    run = runner.run if on == "meta" else _quickest(runner)
    return Facts(
        inputs=tuple(runner.inputs),
        parameters=tuple(parameters),
        outputs=tuple(results),
        probe=Probe(runner.shapes, run),
        small=small,
    )


class _Runner:
    """A module built and run once on one kind of tensors (`on`); `run` runs it on other shapes. Raises
    BadTask if it cannot be built or run."""

    def __init__(self, file: ModuleFile, dtype: torch.dtype | None, on: Where) -> None:
        self.file, self.dtype, self.on = file, dtype, on
        self._replacements = file.replacements
        self._mode = FakeTensorMode(allow_non_fake_inputs=True) if on == "fake" else None
        self._remembered = Remembered() if on == "meta" else nullcontext()
        with self._environment(), plain_forward():
            self._module = convert(file.build(), dtype)
            self.inputs = [cast(value, dtype) for value in file.inputs()]
            try:
                with unchanged(self._module), time_limit(FORWARD_LIMIT_S), self._remembered:
                    self.outputs = call_module(self._module, self.inputs)
            except BadTask as error:
                raise BadTask(f"{file.path}: {error}") from error
            except Exception as error:
                raise BadTask(why_forward_failed(error, file, self._module, self.inputs)) from error
        self.state = state_of(self._module)
        self._tensors = [value for value in self.inputs if isinstance(value, torch.Tensor)]
        self.shapes: Shapes = tuple(tuple(t.shape) for t in self._tensors)

    def run(self, shapes: Shapes) -> Shapes | None:
        """Runs the module on inputs of these shapes, filled with zeros, and returns the shapes of its
        outputs; None if it raises anything."""
        with self.file.replaced(self._replacements), self._environment(), unchanged(self._module):
            made = zip(shapes, self._tensors, strict=True)
            fresh = iter(torch.zeros(shape, dtype=tensor.dtype) for shape, tensor in made)
            arguments = [next(fresh) if isinstance(v, torch.Tensor) else v for v in self.inputs]
            try:
                with self._remembered:
                    return tuple(tuple(o.shape) for o in call_module(self._module, arguments))
            except Exception:
                return None

    @contextmanager
    def _environment(self) -> Iterator[None]:
        """A context for code that builds or runs the module: tensors are fake, meta or on the CPU, as `on`
        says, prints are hidden, and attention is computed by plain operators."""
        with ExitStack() as stack:
            if self.on == "meta":
                stack.enter_context(torch.device("meta"))
            if self._mode is not None:
                stack.enter_context(self._mode)
            if self.on != "cpu":
                stack.enter_context(ShapeRules())
            stack.enter_context(quiet())
            stack.enter_context(plain_attention())
            yield


def _quickest(runner: _Runner) -> Callable[[Shapes], Shapes | None]:
    """A function like `runner.run` (output shapes of input shapes) that is as quick as possible. If the meta
    device gives the same shapes at the module's own inputs, it runs there: alone if the runner has fake
    tensors, and before the runner if that has real ones, so that these need not run on shapes that are
    refused."""
    try:
        light = _Runner(runner.file, runner.dtype, "meta")
    except BadTask:
        return runner.run
    same = [o.shape for o in light.outputs] == [o.shape for o in runner.outputs]
    if not same or light.shapes != runner.shapes:
        return runner.run
    if runner.on == "fake":
        return light.run
    return lambda shapes: None if light.run(shapes) is None else runner.run(shapes)


def same_structure(one: Facts, other: Facts) -> bool:
    """True if two runs of a module have equally many inputs, parameters and outputs, with equal numbers of
    dimensions. `one` and `other` are what the runs showed; the module was built with different constants for
    each."""

    def ranks(facts: Facts) -> list[list[int]]:
        return [
            [len(shape) for shape in facts.probe.base],
            [len(shape) for _, shape, _ in facts.parameters],
            [len(shape) for shape, _ in facts.outputs],
        ]

    return ranks(one) == ranks(other)
