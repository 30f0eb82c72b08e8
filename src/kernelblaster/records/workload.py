"""Workloads: a workload is one choice of all sizes at which a task is run."""

from math import prod
from typing import Literal

from kernelblaster.records.record import Record
from kernelblaster.records.signature import DTYPE_BYTES, Signature, Tensor

WorkloadName = Literal["primary", "odd", "near", "tiny", "small", "below", "beside", "above"]


class Workload(Record):
    """One choice of values (`sizes`, by name) for all sizes of a task's tensors. A task is run at several
    workloads. By `name`: "primary" has the sizes of the task's file, and is timed; "odd", "near" and "tiny"
    have other sizes, for verification; "small" is for the emulator. Workloads named "below", "beside" and
    "above" are drawn in secret, with sizes smaller than, next to and larger than the task's own; there may be
    several of each of these names.

    `module` says with which constructor arguments the task's module is built: "primary" for those of its
    file, "small" for smaller ones, where the emulator needs a smaller module.
    """

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
