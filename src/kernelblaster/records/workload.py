"""Workloads: a workload is one choice of all sizes at which a task is run."""

from math import prod
from typing import Literal

from kernelblaster.records.record import Record
from kernelblaster.records.signature import DTYPE_BYTES, Signature, Tensor

WorkloadName = Literal["primary", "odd", "near", "tiny", "small", "below", "beside", "above"]


class Workload(Record):
    """One choice of all sizes of a signature, at which a task is run; `sizes` has their values by name.
    `module` says with which constructor arguments the task's module is built: "primary" for those of its
    file, "small" for smaller ones, which only the small workload may need. Several workloads may be named
    `below`, `beside` or `above`: these are drawn in secret (tasks/size_draws.py)."""

    name: WorkloadName
    sizes: dict[str, int]
    module: Literal["primary", "small"] = "primary"

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        """The extent of each of a tensor's dimensions at this workload, outermost first."""
        return tuple(self.sizes[dim] for dim in tensor.dims)

    def elements(self, tensor: Tensor) -> int:
        return prod(self.shape(tensor))

    def bytes(self, tensor: Tensor) -> int:
        """How many bytes a tensor takes at this workload: its elements times the bytes of its type."""
        return self.elements(tensor) * DTYPE_BYTES[tensor.dtype]

    def total_bytes(self, signature: Signature) -> int:
        """Bytes of all inputs, parameters and outputs of the signature together, at this workload."""
        return sum(self.bytes(tensor) for tensor in signature.tensors)
