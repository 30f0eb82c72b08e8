"""Derives a signature and its workloads from an executed module file."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from kernelblaster.errors import BadTask
from kernelblaster.records import Scalar, Signature, Size, Task, Tensor, Workload
from kernelblaster.records.signature import DTYPE_BYTES, Dtype
from kernelblaster.records.workload import WorkloadName
from kernelblaster.tasks import probe as sizes
from kernelblaster.tasks.failures import why_forward_failed
from kernelblaster.tasks.module_file import ModuleFile, c_name, call_module
from kernelblaster.tasks.plain_attention import plain_attention
from kernelblaster.tasks.plain_forward import plain_forward
from kernelblaster.tasks.probe import FreeSize, Probe, Shapes

SMALL_BYTES = 4 << 20  # of a small workload that keeps the module's own construction


@dataclass(frozen=True)
class Facts:
    """Shapes and types of one construction of the module (the file's own, or with smaller constants).
    `inputs` are the values of get_inputs(), fake tensors unless it was really run, scalars as they
    are; `parameters` are (name, shape, type), buffers included; `outputs` are (shape, type); `probe`
    tries other input shapes; `small`: it is the small construction."""

    inputs: tuple[Any, ...]
    parameters: tuple[tuple[str, tuple[int, ...], Dtype], ...]
    outputs: tuple[tuple[tuple[int, ...], Dtype], ...]
    probe: Probe
    small: bool = False

    @property
    def elements(self) -> int:
        """The number of elements of all inputs, parameters and outputs together."""
        shapes = list(self.probe.base) + [p[1] for p in self.parameters] + [o[0] for o in self.outputs]
        return sum(int(torch.Size(shape).numel()) for shape in shapes)


def state_of(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers that a candidate receives, by dotted name, in the order of `state_dict`:
    non-persistent buffers are included, scalar integers (such as num_batches_tracked) are not."""
    state = {}
    for prefix, owner in module.named_modules(remove_duplicate=False):
        for name, tensor in (*owner._parameters.items(), *owner._buffers.items()):
            if tensor is not None and (tensor.is_floating_point() or tensor.dim() > 0):
                state[f"{prefix}.{name}" if prefix else name] = tensor
    return state


def parameter_names(module: torch.nn.Module) -> list[str]:
    return list(state_of(module))


def dtype_name(dtype: torch.dtype) -> Dtype:
    """The name of a type without "torch.". Raises BadTask for types that tasks do not support."""
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPE_BYTES:
        known = ", ".join(DTYPE_BYTES)
        raise BadTask(
            f"tensors of type {name} are not supported; keep those out of the module's inputs, "
            f"parameters and outputs, which may be {known}."
        )
    return name  # type: ignore[return-value]


def cast_of(task: Task) -> torch.dtype | None:
    """The type that the task's floating tensors are cast to; None where they keep their own."""
    return getattr(torch, task.cast) if task.cast else None


def cast(value: Any, dtype: torch.dtype | None) -> Any:
    """A floating tensor cast to `dtype`; anything else unchanged, and everything if `dtype` is None."""
    if dtype is not None and isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.to(dtype)
    return value


def convert(module: torch.nn.Module, dtype: torch.dtype | None) -> torch.nn.Module:
    """The module with floating parameters and buffers cast to `dtype` (unlike `Module.to`, also on fake
    tensors), unless it is None; gradients are switched off."""
    for owner in module.modules():
        for name, parameter in owner._parameters.items():
            if parameter is not None and parameter.is_floating_point():
                converted = cast(parameter.detach(), dtype)
                owner._parameters[name] = torch.nn.Parameter(converted, requires_grad=False)
        for name, buffer in owner._buffers.items():
            if buffer is not None:
                owner._buffers[name] = cast(buffer, dtype)
    return module


def learn(file: ModuleFile, dtype: torch.dtype | None, *, real: bool = False, small: bool = False) -> Facts:
    """Build and run the module once, cast to `dtype` (None: as it is). It runs on fake tensors, which is
    cheap at any size, or if `real` on the CPU, which finds errors that fake tensors miss. `small` only
    marks the result: the caller has replaced the file's constants. Raises BadTask if the module cannot
    be built or run."""
    mode = nullcontext() if real else FakeTensorMode(allow_non_fake_inputs=True)
    with mode, _unlogged(), plain_attention(), plain_forward():
        module = convert(file.build(), dtype)
        inputs = [cast(value, dtype) for value in file.inputs()]
        try:
            outputs = call_module(module, inputs)
        except BadTask as error:
            raise BadTask(f"{file.path}: {error}") from error
        except Exception as error:
            raise BadTask(why_forward_failed(error, file, module, inputs)) from error
    state = state_of(module)
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]

    def run(shapes: Shapes) -> Shapes | None:
        with mode, _unlogged(), warnings.catch_warnings(), plain_attention():
            warnings.simplefilter("ignore")
            fresh = iter(torch.zeros(shape, dtype=t.dtype) for shape, t in zip(shapes, tensors, strict=True))
            arguments = [next(fresh) if isinstance(v, torch.Tensor) else v for v in inputs]
            try:
                return tuple(tuple(o.shape) for o in call_module(module, arguments))
            except Exception:
                return None

    try:
        parameters = [(name, tuple(t.shape), dtype_name(t.dtype)) for name, t in state.items()]
        results = [(tuple(o.shape), dtype_name(o.dtype)) for o in outputs]
    except BadTask as error:
        raise BadTask(f"{file.path}: {error}") from error
    return Facts(
        inputs=tuple(inputs),
        parameters=tuple(parameters),
        outputs=tuple(results),
        probe=Probe(tuple(tuple(t.shape) for t in tensors), run),
        small=small,
    )


@contextmanager
def _unlogged() -> Iterator[None]:
    """Silences the log of fake tensors, forty lines for each refused size: a refusal is an answer here."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


class Derivation:
    """Derives the `signature` of a module from its facts: which dimensions are free to vary (`free`),
    which are fixed by construction, which follow from others, and which share one size. `workloads()`
    gives the sizes' values."""

    def __init__(self, file: ModuleFile, primary: Facts, small: Facts | None) -> None:
        """`primary` are the facts of the file as it is, `small` those of the small construction; None if
        there is none."""
        self.file = file
        self.primary = primary
        self.small = small
        self.free = self._free_sizes()
        self._kinds: dict[str, Literal["free", "fixed", "derived"]] = {}
        self._fixed: dict[tuple[int, int | None], str] = {}
        self.signature = self._signature()

    def _free_sizes(self) -> list[FreeSize]:
        """The sizes that can be changed without changing the file. Found by really running the small
        construction if there is one, then confirmed on the primary one with fake tensors."""
        probe = self.primary.probe
        if self.small is None:
            return probe.free_sizes()
        confirmed = []
        for size in self.small.probe.free_sizes(equal_elsewhere=probe.base):
            tensor, axis = size.dimensions[0]
            value = probe.base[tensor][axis]
            for other in sizes.alternatives(value):
                if value != 1 and probe.accepts(list(size.dimensions), other):
                    confirmed.append(FreeSize(size.dimensions, value, other))
                    break
        return confirmed

    def workloads(self) -> tuple[Workload, ...]:
        """The primary workload; odd, near and tiny ones, where the module accepts such sizes; and a small
        one for the emulator, if there is any."""
        probe = self.primary.probe
        workloads = [self._workload("primary", probe.base, self.primary)]
        wishes = (("odd", sizes.odd_sizes), ("near", sizes.near_sizes), ("tiny", sizes.tiny_sizes))
        for name, wish in wishes:
            shapes = probe.choose(self.free, wish)
            if shapes != probe.base:
                workloads.append(self._workload(name, shapes, self.primary))  # type: ignore[arg-type]
        if self.small is not None:
            workloads.append(self._workload("small", self.small.probe.base, self.small))
        else:
            workloads += self._small_inputs()
        return tuple(workloads)

    def _small_inputs(self) -> list[Workload]:
        """The small workload of a module without a small construction: its own parameters with small
        inputs. Empty if all tensors together exceed SMALL_BYTES."""
        probe = self.primary.probe
        shapes = probe.choose(self.free, sizes.small_sizes)
        workload = self._workload("small", shapes, self.primary)
        return [workload] if workload.total_bytes(self.signature) <= SMALL_BYTES else []

    @property
    def dtype(self) -> Dtype:
        """The task's type: that of the first floating input, else parameter, else output."""
        tensors = (*self.signature.read_tensors, *self.signature.outputs)
        return next((tensor.dtype for tensor in tensors if tensor.floating), "float32")

    def _signature(self) -> Signature:
        """The signature: names and sizes of all tensors. Registers each size in `_kinds` when it is first
        used."""
        names = self.file.input_names(len(self.primary.inputs))
        tensor_names = [
            name
            for name, value in zip(names, self.primary.inputs, strict=True)
            if isinstance(value, torch.Tensor)
        ]
        free_names: dict[tuple[int, int], str] = {}
        for size in self.free:
            tensor, axis = size.dimensions[0]
            free_names |= dict.fromkeys(size.dimensions, f"{tensor_names[tensor]}_{axis}")

        small_shapes = self.small.probe.base if self.small else None
        inputs: list[Tensor | Scalar] = []
        position = 0
        for name, value in zip(names, self.primary.inputs, strict=True):
            if not isinstance(value, torch.Tensor):
                kind = type(value).__name__
                inputs.append(Scalar(name=name, kind=kind))  # type: ignore[arg-type]
                continue
            dims = []
            for axis, extent in enumerate(value.shape):
                small = small_shapes[position][axis] if small_shapes else None
                free = free_names.get((position, axis))
                dims.append(self._free(free) if free else self._shared(name, axis, extent, small))
            inputs.append(_tensor(name, "input", dtype_name(value.dtype), dims))
            position += 1

        taken = set(names)
        parameters = []
        for index, (name, shape, dtype) in enumerate(self.primary.parameters):
            safe = c_name(name)
            safe = f"{safe}_parameter" if safe in taken else safe
            small_shape = self.small.parameters[index][1] if self.small else None
            dims = [
                self._shared(safe, axis, extent, small_shape[axis] if small_shape else None)
                for axis, extent in enumerate(shape)
            ]
            parameters.append(_tensor(safe, "parameter", dtype, dims))
        outputs = self._outputs(free_names)
        kinds = self._kinds.items()
        return Signature(
            outputs=tuple(outputs),
            inputs=tuple(inputs),
            parameters=tuple(parameters),
            sizes=tuple(Size(name=name, kind=kind) for name, kind in kinds),
        )

    def _outputs(self, free_names: dict[tuple[int, int], str]) -> list[Tensor]:
        """The output tensors. Each of their dimensions is a free size if it changes exactly as that does,
        a fixed size if it responds to none, and otherwise a new derived size. `free_names` maps
        (input, axis) to the names of free sizes."""
        probe = self.primary.probe
        moved = {
            free_names[size.dimensions[0]]: (
                size,
                probe.outputs(probe.with_sizes([(size, size.other)])),
            )
            for size in self.free
        }
        outputs = []
        several = len(self.primary.outputs) > 1
        for index, (shape, dtype) in enumerate(self.primary.outputs):
            name = f"out{index}" if several else "out"
            small_shape = self.small.outputs[index][0] if self.small else None
            dims = []
            for axis, extent in enumerate(shape):
                responds = {
                    size_name: shapes[index][axis]
                    for size_name, (_, shapes) in moved.items()
                    if shapes is not None and shapes[index][axis] != extent
                }
                same = [
                    size_name
                    for size_name, value in responds.items()
                    if extent == moved[size_name][0].value and value == moved[size_name][0].other
                ]
                if not responds:
                    small = small_shape[axis] if small_shape else None
                    dims.append(self._shared(name, axis, extent, small))
                elif len(responds) == 1 and same:
                    dims.append(same[0])
                else:
                    dims.append(self._new(f"{name}_{axis}", "derived"))
            outputs.append(_tensor(name, "output", dtype, dims))
        return outputs

    def _new(self, name: str, kind: Literal["free", "fixed", "derived"]) -> str:
        """Register a size in the signature, in order of first use; returns its name."""
        self._kinds.setdefault(name, kind)
        return name

    def _free(self, name: str) -> str:
        return self._new(name, "free")

    def _shared(self, tensor: str, axis: int, extent: int, small: int | None) -> str:
        """The name of a fixed dimension's size: one for all dimensions with the same extent in the
        primary and in the small construction (`small`; None if there is none). Named after the first
        `tensor` and `axis` with it."""
        key = (extent, small)
        if key not in self._fixed:
            self._fixed[key] = self._new(f"{tensor}_{axis}", "fixed")
        return self._fixed[key]

    def _workload(self, name: WorkloadName, shapes: Shapes, facts: Facts) -> Workload:
        """The workload with these input shapes. Raises BadTask if dimensions that share a size differ in
        it."""
        try:
            return workload_of(name, self.signature, facts, shapes)
        except UnequalSizes as error:
            raise BadTask(
                f"{self.file.path}: in the {name} workload, {error}; "
                "give SMALL constants that keep equal sizes equal."
            ) from error


class UnequalSizes(ValueError):
    """Raised if two dimensions that share a size in the signature have different extents in a workload."""


def workload_of(name: WorkloadName, signature: Signature, facts: Facts, shapes: Shapes) -> Workload:
    """The workload `name` with these input shapes, which the module must accept; outputs are found by
    `facts.probe`. Raises UnequalSizes if a tensor does not fit the signature's sizes."""
    outputs = facts.probe.outputs(shapes)
    assert outputs is not None
    parameters = [shape for _, shape, _ in facts.parameters]
    tensors = (*signature.input_tensors, *signature.parameters, *signature.outputs)
    values: dict[str, int] = {}
    for tensor, shape in zip(tensors, (*shapes, *parameters, *outputs), strict=True):
        if len(tensor.dims) != len(shape):
            raise UnequalSizes(f"{tensor.name} has {len(shape)} dimensions")
        for dim, extent in zip(tensor.dims, shape, strict=True):
            if values.setdefault(dim, extent) != extent:
                raise UnequalSizes(f"{tensor.name} has {extent} where size {dim} is {values[dim]}")
    ordered = {size.name: values[size.name] for size in signature.sizes}
    return Workload(name=name, sizes=ordered, module="small" if facts.small else "primary")


def _tensor(name: str, role: Any, dtype: Dtype, dims: list[str]) -> Tensor:
    return Tensor(name=name, role=role, dtype=dtype, dims=tuple(dims))


def same_structure(one: Facts, other: Facts) -> bool:
    """Whether two constructions have equally many inputs, parameters and outputs, with equal numbers of
    dimensions."""

    def ranks(facts: Facts) -> list[list[int]]:
        return [
            [len(shape) for shape in facts.probe.base],
            [len(shape) for _, shape, _ in facts.parameters],
            [len(shape) for shape, _ in facts.outputs],
        ]

    return ranks(one) == ranks(other)
