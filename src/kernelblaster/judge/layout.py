"""Where a workload's tensors lie: each in a slot of the arena, which is a mapping of its own with nothing
mapped beside it, at the slot's begin or its end, and at addresses that are never the same twice."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

import torch

from kernelblaster.devices import window
from kernelblaster.devices.device import Arena, Argument, Pointer
from kernelblaster.records import Scalar, Signature, Tensor, Workload
from kernelblaster.records.signature import DTYPE_BYTES

ALIGNMENT = 256  # of every tensor, as docs/candidates.md promises
PIECE = 1 << 28  # bytes that are looked at together


def slot_bytes(signature: Signature, workloads: Iterable[Workload]) -> list[int]:
    """For each tensor of the signature the bytes that hold it at every workload."""
    known = list(workloads)
    return [max(_rounded(workload.bytes(tensor)) for workload in known) for tensor in signature.tensors]


def spare_bytes(signature: Signature, workloads: Iterable[Workload]) -> int:
    """What the arena must hold beyond its slots: inputs and parameters in float64 take more room."""
    known = list(workloads)
    wide = max(
        sum(
            _rounded(workload.elements(t) * (8 if t.floating else DTYPE_BYTES[t.dtype]))
            for t in signature.read_tensors
        )
        for workload in known
    )
    return max(0, wide - sum(slot_bytes(signature, known)))


@dataclass(frozen=True)
class Layout:
    """Tensors of one workload in their slots; views are made on demand. `guards` are what is left of the
    slots that a candidate may write to, as (begin, end) in the arena, filled with the byte `guard`."""

    arena: Arena
    workload: Workload
    pointers: dict[str, Pointer]
    guards: tuple[tuple[int, int], ...]
    guard: int = 0xA5

    def raw(self, tensor: Tensor) -> torch.Tensor:
        pointer = self.pointers[tensor.name]
        return self.arena.memory[pointer.offset : pointer.offset + pointer.bytes]

    def view(self, tensor: Tensor) -> torch.Tensor:
        return self.raw(tensor).view(getattr(torch, tensor.dtype)).view(self.workload.shape(tensor))

    def set_guards(self) -> None:
        for start, end in self.guards:
            self.arena.memory[start:end].fill_(self.guard)

    def broken_guard(self) -> int | None:
        """Offset of the first guard byte that was changed, if any."""
        word = int.from_bytes(bytes([self.guard] * 8), "little", signed=True)
        for begin, end in self.guards:
            for start in range(begin, end, PIECE):
                zone = self.arena.memory[start : min(end, start + PIECE)]
                whole = zone.numel() // 8 * 8
                aligned = start % 8 == 0
                words = zone[:whole].view(torch.int64) if aligned else zone
                wrong = words != (word if aligned else self.guard)
                tail = zone[whole:] != self.guard
                if bool(wrong.any()) or bool(tail.any()):
                    return start + int((zone != self.guard).nonzero()[0])
        return None

    def neighbour(self, offset: int) -> str:
        """Which tensor lies next to an offset, in words."""
        near = min(self.pointers.values(), key=lambda p: abs(p.offset - offset))
        side = "before" if offset < near.offset else "after"
        return f"{abs(offset - near.offset)} bytes {side} the start of {near.name}"

    def arguments(self, signature: Signature, scalars: Sequence[object]) -> tuple[Argument, ...]:
        """Outputs, inputs, parameters and sizes, as the launch function takes them."""
        numbers = iter(scalars)
        result: list[Argument] = [self.pointers[t.name] for t in signature.outputs]
        for item in signature.inputs:
            result.append(next(numbers) if isinstance(item, Scalar) else self.pointers[item.name])  # type: ignore[arg-type]
        result += [self.pointers[t.name] for t in signature.parameters]
        result += [self.workload.sizes[size.name] for size in signature.sizes]
        return tuple(result)


def lay_out(
    arena: Arena, signature: Signature, workload: Workload, rng: random.Random, first: int = 0
) -> Layout:
    """A fresh arrangement in the slots from number `first` on."""
    tensors = signature.tensors
    slots = arena.slots[first : first + len(tensors)]
    addresses = window.draw_mappings([slot.bytes for slot in slots], rng)
    pointers: dict[str, Pointer] = {}
    guards: list[tuple[int, int]] = []
    for number, (tensor, slot, address) in enumerate(zip(tensors, slots, addresses, strict=True), first):
        size = workload.bytes(tensor)
        inside = (slot.bytes - size) // ALIGNMENT * ALIGNMENT if rng.random() < 0.5 else 0
        begin = slot.start + inside
        written = tensor.role == "output"
        pointers[tensor.name] = Pointer(number, begin, size, tensor.name, address + inside, written)
        if written:
            rest = ((slot.start, begin), (begin + size, slot.start + slot.bytes))
            guards += [zone for zone in rest if zone[0] < zone[1]]
    return Layout(arena, workload, pointers, tuple(guards), rng.randrange(1, 256))


def float64_views(arena: Arena, tensors: list[Tensor], workload: Workload) -> list[torch.Tensor]:
    """The same tensors with floating types widened, packed over the arena (which loses its
    contents): the float64 reference then needs no further memory for its arguments."""
    views = []
    position = 0
    for tensor in tensors:
        dtype = torch.float64 if tensor.floating else getattr(torch, tensor.dtype)
        shape = workload.shape(tensor)
        size = prod(shape) * dtype.itemsize
        views.append(arena.memory[position : position + size].view(dtype).view(shape))
        position += _rounded(size)
    return views


def _rounded(size: int) -> int:
    return window.rounded(size, ALIGNMENT)
