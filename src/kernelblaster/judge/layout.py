"""Where a workload's tensors lie in the arena: apart from each other, never at the same place
twice, with guard zones in between that nobody may touch."""

import random
from dataclasses import dataclass
from math import prod

import torch

from kernelblaster.devices.device import Argument, Pointer
from kernelblaster.records import Scalar, Signature, Tensor, Workload
from kernelblaster.records.signature import DTYPE_BYTES

ALIGNMENT = 512
GUARD_BYTES = 4096
TAIL_GUARD_BYTES = 64 << 20
SHIFTS = 8
GUARD_BYTE = 0xA5


def arena_bytes(signature: Signature, workload: Workload) -> int:
    """Enough for any layout of the tensors, and for inputs and parameters in float64."""
    tensors = signature.tensors
    plain = sum(_rounded(workload.bytes(t)) + GUARD_BYTES + SHIFTS * ALIGNMENT for t in tensors)
    wide = sum(
        _rounded(workload.elements(t) * (8 if t.floating else DTYPE_BYTES[t.dtype]))
        for t in signature.read_tensors
    )
    return max(plain + GUARD_BYTES, wide)


@dataclass(frozen=True)
class Layout:
    """Tensors of one workload at chosen offsets; views are made on demand."""

    arena: torch.Tensor
    workload: Workload
    offsets: dict[str, int]
    guards: tuple[tuple[int, int], ...]

    @property
    def extent(self) -> int:
        """How much of the arena the tensors take, from its start."""
        return self.guards[-1][0] + min(GUARD_BYTES, self.guards[-1][1] - self.guards[-1][0])

    def view(self, tensor: Tensor) -> torch.Tensor:
        start = self.offsets[tensor.name]
        raw = self.arena[start : start + self.workload.bytes(tensor)]
        return raw.view(getattr(torch, tensor.dtype)).view(self.workload.shape(tensor))

    def raw(self, tensor: Tensor) -> torch.Tensor:
        start = self.offsets[tensor.name]
        return self.arena[start : start + self.workload.bytes(tensor)]

    def set_guards(self) -> None:
        for start, end in self.guards:
            self.arena[start:end].fill_(GUARD_BYTE)

    def broken_guard(self) -> int | None:
        """Offset of the first guard byte that was changed, if any."""
        zones = torch.cat([self.arena[start:end] for start, end in self.guards])
        wrong = zones != GUARD_BYTE
        if not bool(wrong.any()):
            return None
        position = int(wrong.nonzero()[0])
        for start, end in self.guards:
            if position < end - start:
                return start + position
            position -= end - start
        raise AssertionError

    def neighbour(self, offset: int) -> str:
        """Which tensor lies next to an offset, in words."""
        name, start = min(self.offsets.items(), key=lambda item: abs(item[1] - offset))
        return f"{abs(offset - start)} bytes {'before' if offset < start else 'after'} the start of {name}"

    def arguments(self, signature: Signature, scalars: list[object]) -> tuple[Argument, ...]:
        """Outputs, inputs, parameters and sizes, as the launch function takes them."""
        numbers = iter(scalars)
        result: list[Argument] = [self._pointer(t) for t in signature.outputs]
        for item in signature.inputs:
            if isinstance(item, Scalar):
                result.append(next(numbers))  # type: ignore[arg-type]
            else:
                result.append(self._pointer(item))
        result += [self._pointer(t) for t in signature.parameters]
        result += [self.workload.sizes[size.name] for size in signature.sizes]
        return tuple(result)

    def _pointer(self, tensor: Tensor) -> Pointer:
        return Pointer(self.offsets[tensor.name], self.workload.bytes(tensor), tensor.name)


def lay_out(
    arena: torch.Tensor, signature: Signature, workload: Workload, rng: random.Random, first: int = 0
) -> Layout:
    """A fresh arrangement from the byte `first` on: shuffled order, shifted starts."""
    tensors = list(signature.tensors)
    rng.shuffle(tensors)
    offsets: dict[str, int] = {}
    guards = []
    position = first
    for tensor in tensors:
        start = position + GUARD_BYTES + rng.randrange(SHIFTS) * ALIGNMENT
        end = start + workload.bytes(tensor)
        guards.append((position, start))
        offsets[tensor.name] = start
        position = start + _rounded(workload.bytes(tensor))
        if end < position:
            guards.append((end, position))
    guards.append((position, min(arena.numel(), position + TAIL_GUARD_BYTES)))
    return Layout(arena, workload, offsets, tuple(guards))


def float64_views(arena: torch.Tensor, tensors: list[Tensor], workload: Workload) -> list[torch.Tensor]:
    """The same tensors with floating types widened, packed over the arena (which loses its
    contents): the float64 reference then needs no further memory for its arguments."""
    views = []
    position = 0
    for tensor in tensors:
        dtype = torch.float64 if tensor.floating else getattr(torch, tensor.dtype)
        shape = workload.shape(tensor)
        size = prod(shape) * dtype.itemsize
        views.append(arena[position : position + size].view(dtype).view(shape))
        position += _rounded(size)
    return views


def _rounded(size: int) -> int:
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
