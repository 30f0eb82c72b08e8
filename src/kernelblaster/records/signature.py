"""The arguments of a candidate's launch function, in calling order: outputs, inputs, parameters, then every
size once."""

from typing import Literal

from kernelblaster.records.record import Record

Dtype = Literal[
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"
]
Role = Literal["output", "input", "parameter"]

DTYPE_BYTES: dict[Dtype, int] = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
    "bool": 1,
}
FLOATING: frozenset[Dtype] = frozenset({"float64", "float32", "float16", "bfloat16"})


class Tensor(Record):
    """A contiguous, row-major tensor argument of the launch function. `role` says whether it is an output, an
    input or a parameter, `dtype` is the type of its elements. `dims` are the names of its extents, outermost
    first, each the name of one of `Signature.sizes`."""

    name: str
    role: Role
    dtype: Dtype
    dims: tuple[str, ...]

    @property
    def floating(self) -> bool:
        """True if the elements are floating-point numbers. Errors of such an output are bounded; other
        outputs must be exact."""
        return self.dtype in FLOATING


class Scalar(Record):
    """A Python number, called `name`, among a module's inputs: an int, float or bool, as `kind` says. The
    launch function receives it by value."""

    name: str
    kind: Literal["int", "float", "bool"]


class Size(Record):
    """An extent of tensors, called `name`, passed to the launch function as int64_t. Its `kind` is "free" if
    it may differ between workloads, "fixed" if the module's construction sets it, and "derived" if it follows
    from other sizes."""

    name: str
    kind: Literal["free", "fixed", "derived"]


class Signature(Record):
    """The arguments of a task's launch function in calling order: outputs, inputs (tensors and scalars),
    parameters (weights and buffers of the module), then every size once."""

    outputs: tuple[Tensor, ...]
    inputs: tuple[Tensor | Scalar, ...]
    parameters: tuple[Tensor, ...]
    sizes: tuple[Size, ...]

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The inputs without scalars, in calling order."""
        return tuple(item for item in self.inputs if isinstance(item, Tensor))

    @property
    def read_tensors(self) -> tuple[Tensor, ...]:
        """All tensors that a candidate gets to read and must not change: the input tensors, then the
        parameters."""
        return self.input_tensors + self.parameters

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors in calling order: outputs, inputs, parameters."""
        return self.outputs + self.read_tensors
