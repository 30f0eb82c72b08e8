"""Derives a task's signature (tensors and named sizes) and its workloads from what running its module showed:
the shapes and types of its tensors, and which other input shapes it accepts."""

from typing import Any, Literal

import torch

from kernelblaster.errors import BadTask
from kernelblaster.records import Scalar, Signature, Size, Tensor, Workload
from kernelblaster.records.signature import Dtype
from kernelblaster.records.workload import WorkloadName
from kernelblaster.tasks import probe as sizes
from kernelblaster.tasks.facts import Facts
from kernelblaster.tasks.module_file import ModuleFile, parameter_c_names
from kernelblaster.tasks.module_state import dtype_name
from kernelblaster.tasks.probe import FreeSize, Shapes, Wishes

SMALL_BYTES = 4 << 20  # of a small workload that keeps the module's own construction


class Derivation:
    """Derives a task's signature and workloads from facts of its module: shapes and types, found by running
    it. `primary` are the facts of the module as its `file` builds it. `small` are those of the module built
    with smaller constants for the emulator; None if it cannot be built so.

    The result is in three attributes. `signature` has the tensors and the named sizes. `free` are the sizes
    that may vary; all other dimensions are fixed by the module's construction or follow from these.
    `held_out` has the name and the input shapes of each workload that only verification uses.
    """

    def __init__(self, file: ModuleFile, primary: Facts, small: Facts | None) -> None:
        """`primary` are the facts of the module as the file builds it, `small` those of the module built with
        smaller constants; None if there is no such construction."""
        self.file = file
        self.primary = primary
        self.small = small
        self.free = self._free_sizes()
        self.held_out = self._held_out()
        self._kinds: dict[str, Literal["free", "fixed", "derived"]] = {}
        self._fixed: dict[tuple[int, int | None], str] = {}
        self.signature = self._signature()

    def _free_sizes(self) -> list[FreeSize]:
        """The sizes that can be changed without changing the file. Found by really running the module built
        with smaller constants, if there is one, then confirmed on the file's own one without computing
        values."""
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

    def _held_out(self) -> list[tuple[WorkloadName, Shapes]]:
        """Names and input shapes of the held-out workloads (other sizes than those timed, for verification);
        without those that the module does not accept."""
        probe = self.primary.probe
        wishes: tuple[tuple[WorkloadName, Wishes], ...] = (
            ("odd", sizes.odd_sizes),
            ("near", sizes.near_sizes),
            ("tiny", sizes.tiny_sizes),
        )
        chosen = [(name, probe.choose(self.free, wish)) for name, wish in wishes]
        return [(name, shapes) for name, shapes in chosen if shapes != probe.base]

    def workloads(self) -> tuple[Workload, ...]:
        """Returns the workloads. "primary" has the sizes in the file and is timed. "odd", "near" and "tiny"
        have other sizes and serve verification; each is left out if the module accepts no such sizes. "small"
        is for the emulator; left out if the module can neither be built smaller nor takes inputs so small
        that all tensors fit 4 MiB (SMALL_BYTES)."""
        workloads = [self._workload("primary", self.primary.probe.base, self.primary)]
        workloads += [self._workload(name, shapes, self.primary) for name, shapes in self.held_out]
        if self.small is not None:
            workloads.append(self._workload("small", self.small.probe.base, self.small))
        else:
            workloads += self._small_inputs()
        return tuple(workloads)

    def _small_inputs(self) -> list[Workload]:
        """The small workload, for the emulator, of a module that cannot be built smaller: its own parameters
        with small inputs. Empty if all tensors together exceed SMALL_BYTES."""
        probe = self.primary.probe
        shapes = probe.choose(self.free, sizes.small_sizes)
        workload = self._workload("small", shapes, self.primary)
        return [workload] if workload.total_bytes(self.signature) <= SMALL_BYTES else []

    @property
    def dtype(self) -> Dtype:
        """The element type that is shown as the task's: that of its first floating-point tensor, looked for
        among the inputs, then the parameters, then the outputs; "float32" if nothing is floating-point."""
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

        taken = {*names, *self._kinds, *self._output_names()}
        given = [name for name, _, _ in self.primary.parameters]
        parameters = []
        for index, safe in enumerate(parameter_c_names(given, taken)):
            _, shape, dtype = self.primary.parameters[index]
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
        """The output tensors. Each of their dimensions is a fixed size if it was the same at all shapes that
        were tried, a free size if it was always equal to that, and otherwise a new derived size. `free_names`
        maps (input, axis) to the names of free sizes."""
        seen = [(self._free_extents(shapes, free_names), out) for shapes, out in self._observations()]
        outputs = []
        for index, name in enumerate(self._output_names()):
            shape, dtype = self.primary.outputs[index]
            small_shape = self.small.outputs[index][0] if self.small else None
            dims = []
            for axis, extent in enumerate(shape):
                small = small_shape[axis] if small_shape else None
                pairs = [(given, out[index][axis]) for given, out in seen]
                if self.small is not None and small is not None:
                    pairs.append((self._free_extents(self.small.probe.base, free_names), small))
                same = [free for free in pairs[0][0] if all(given[free] == out for given, out in pairs)]
                if all(out[index][axis] == extent for _, out in seen):
                    dims.append(self._shared(name, axis, extent, small))
                elif same:
                    dims.append(same[0])
                else:
                    dims.append(self._new(f"{name}_{axis}", "derived"))
            outputs.append(_tensor(name, "output", dtype, dims))
        return outputs

    def _output_names(self) -> list[str]:
        count = len(self.primary.outputs)
        return [f"out{index}" for index in range(count)] if count > 1 else ["out"]

    def _observations(self) -> list[tuple[Shapes, Shapes]]:
        """Input shapes that the module accepts, each with the shapes of its outputs: the file's own, each
        free size by itself at another value, and all held-out workloads. A size that these leave near its
        value is tried at half or twice that too, since windows with a large stride do not respond to less."""
        probe = self.primary.probe
        tried = [probe.base, *(probe.with_sizes([(size, size.other)]) for size in self.free)]
        tried += [shapes for _, shapes in self.held_out]
        for size in self.free:
            tensor, axis = size.dimensions[0]
            if all(3 * shapes[tensor][axis] > 2 * size.value for shapes in tried):
                far = [probe.with_sizes([(size, value)]) for value in (size.value // 2, 2 * size.value)]
                tried += [shapes for shapes in far if 0 not in shapes[tensor]][:2]
        return [(shapes, out) for shapes in tried if (out := probe.outputs(shapes)) is not None]

    def _free_extents(self, shapes: Shapes, free_names: dict[tuple[int, int], str]) -> dict[str, int]:
        """The values of the task's free sizes, by name, when its inputs have these shapes. `free_names` maps
        (input, axis) to the names."""
        return {
            free_names[size.dimensions[0]]: shapes[size.dimensions[0][0]][size.dimensions[0][1]]
            for size in self.free
        }

    def _new(self, name: str, kind: Literal["free", "fixed", "derived"]) -> str:
        """Adds a size to the signature under this name, unless it is there; `kind` says whether it may vary
        (free), is set by the constructor (fixed) or follows from others (derived). Returns the name."""
        self._kinds.setdefault(name, kind)
        return name

    def _free(self, name: str) -> str:
        return self._new(name, "free")

    def _shared(self, tensor: str, axis: int, extent: int, small: int | None) -> str:
        """The name of the size of a fixed dimension. Dimensions share a size if they have the same extent in
        the module as the file builds it and, if there is a smaller construction, in that too (`small`). It is
        named after the first `tensor` and `axis` that has it."""
        key = (extent, small)
        if key not in self._fixed:
            self._fixed[key] = self._new(f"{tensor}_{axis}", "fixed")
        return self._fixed[key]

    def _workload(self, name: WorkloadName, shapes: Shapes, facts: Facts) -> Workload:
        """The workload `name` with these input shapes; `facts` finds the outputs' shapes. Raises BadTask if
        dimensions that share a size differ in it."""
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
    """Returns the workload `name` of a task with this `signature`, at which the inputs have the shapes
    `shapes`; the module must accept these. The shapes of parameters come from `facts`. Those of outputs are
    found by running the module of `facts` on such inputs (`facts.probe`). Raises UnequalSizes if two
    dimensions that share a size in `signature` differ."""
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
