"""The launch function's arguments: outputs, inputs, parameters, then every size once."""

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
    """A contiguous, row-major tensor argument; `dims` name entries of `Signature.sizes`."""

    name: str
    role: Role
    dtype: Dtype
    dims: tuple[str, ...]

    @property
    def floating(self) -> bool:
        return self.dtype in FLOATING


class Scalar(Record):
    """A Python number among the inputs, passed by value."""

    name: str
    kind: Literal["int", "float", "bool"]


class Size(Record):
    """A named extent. `free` sizes may differ between workloads; others are fixed or derived."""

    name: str
    kind: Literal["free", "fixed", "derived"]


class Signature(Record):
    """The arguments in calling order: outputs, inputs (tensors and scalars), parameters, sizes."""

    outputs: tuple[Tensor, ...]
    inputs: tuple[Tensor | Scalar, ...]
    parameters: tuple[Tensor, ...]
    sizes: tuple[Size, ...]

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        return tuple(item for item in self.inputs if isinstance(item, Tensor))

    @property
    def read_tensors(self) -> tuple[Tensor, ...]:
        """Tensors that a candidate may read and must not change: inputs, then parameters."""
        return self.input_tensors + self.parameters

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self.outputs + self.read_tensors
