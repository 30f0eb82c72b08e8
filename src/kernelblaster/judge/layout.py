"""Places a workload's tensors in device memory, for a call of a candidate.

Each tensor has a slot of its own in the arena (the memory that candidates work on): a separate mapping with
unmapped pages around it. The tensor lies at the begin or at the end of its slot, at an address that is drawn
anew for every layout.
"""

import itertools
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
PIECE = 1 << 28  # bytes that are compared at once


def slot_bytes(signature: Signature, workloads: Iterable[Workload]) -> list[int]:
    """Returns how many bytes each tensor's slot in the arena (the memory that candidates work on) must have:
    enough for the tensor at the largest of these workloads, rounded up to 256. The result is in the order of
    the signature: outputs, inputs, parameters."""
    known = list(workloads)
    return [max(_rounded(workload.bytes(tensor)) for workload in known) for tensor in signature.tensors]


def spare_bytes(signature: Signature, workloads: Iterable[Workload]) -> int:
    """Returns how many bytes the judge needs in the arena (the memory that candidates work on) in addition to
    the slots of the tensors in `signature`. The float64 reference puts all inputs and parameters, widened to
    float64, into the whole arena; this must be possible at each of `workloads`. 0 if the slots are large
    enough for that."""
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
    """Where the tensors of one workload lie in the arena, the memory that candidates work on. `pointers` says
    where each tensor lies, by its name. `guards` are the unused parts of the outputs' slots, as (begin, end)
    byte offsets in the arena. They are filled with the byte `guard`; a changed one shows an out-of-bounds
    write."""

    arena: Arena
    workload: Workload
    pointers: dict[str, Pointer]
    guards: tuple[tuple[int, int], ...]
    guard: int = 0xA5

    def raw(self, tensor: Tensor) -> torch.Tensor:
        """Returns the bytes of memory that hold `tensor`, as a 1-D uint8 view of the arena (no copy)."""
        pointer = self.pointers[tensor.name]
        return self.arena.memory[pointer.offset : pointer.offset + pointer.bytes]

    def view(self, tensor: Tensor) -> torch.Tensor:
        """Returns `tensor` with its type and shape, as a view of the arena (no copy)."""
        return self.raw(tensor).view(getattr(torch, tensor.dtype)).view(self.workload.shape(tensor))

    def set_guards(self) -> None:
        """Fill the guard zones, the unused memory around outputs, with the guard byte."""
        for start, end in self.guards:
            self.arena.memory[start:end].fill_(self.guard)

    def broken_guard(self) -> int | None:
        """Returns the byte offset in the arena (the memory that candidates work on) of the first guard byte
        (unused memory around outputs) that was changed; None if none was changed."""
        word = int.from_bytes(bytes([self.guard] * 8), "little", signed=True)
        zones: list[tuple[int, int, int]] = []  # begin, end, and what every word or byte of it should be
        extremes: list[torch.Tensor] = []  # the least and the largest of each
        for begin, end in self.guards:
            first = min(end, -(-begin // 8) * 8)  # what can be read as words of 8 bytes lies from here
            last = max(first, end // 8 * 8)
            cuts = [begin, *range(first, last, PIECE), last, end]
            for start, stop in itertools.pairwise(cuts):
                if start == stop:
                    continue
                zone, words = self.arena.memory[start:stop], first <= start and stop <= last
                extremes += torch.aminmax(zone.view(torch.int64) if words else zone)
                zones.append((start, stop, word if words else self.guard))
        if not zones:
            return None
        found = torch.stack([value.long() for value in extremes]).tolist()  # one wait for all of them
        for (start, stop, value), least, largest in zip(zones, found[::2], found[1::2], strict=True):
            if not least == value == largest:
                return start + int((self.arena.memory[start:stop] != self.guard).nonzero()[0])
        return None

    def neighbour(self, offset: int) -> str:
        """Returns in words, for a message, where byte `offset` of the arena (the memory that candidates work
        on) lies: how many bytes before or after the start of the nearest tensor ("16 bytes before the start
        of y")."""
        near = min(self.pointers.values(), key=lambda p: abs(p.offset - offset))
        side = "before" if offset < near.offset else "after"
        return f"{abs(offset - near.offset)} bytes {side} the start of {near.name}"

    def arguments(self, signature: Signature, scalars: Sequence[object]) -> tuple[Argument, ...]:
        """Returns the arguments of a call in the order of a candidate's launch function: outputs, inputs
        (with `scalars` among them where the signature has scalars), parameters, sizes."""
        numbers = iter(scalars)
        result: list[Argument] = [self.pointers[t.name] for t in signature.outputs]
        for item in signature.inputs:
            result.append(next(numbers) if isinstance(item, Scalar) else self.pointers[item.name])  # type: ignore[arg-type]
        result += [self.pointers[t.name] for t in signature.parameters]
        result += [self.workload.sizes[size.name] for size in signature.sizes]
        return tuple(result)


def lay_out(
    arena: Arena,
    signature: Signature,
    workload: Workload,
    rng: random.Random,
    first: int = 0,
    like: Layout | None = None,
) -> Layout:
    """Returns a new layout for `workload`: where each of its tensors lies in the arena, and at which address.
    The first tensor in the signature's order gets slot number `first` of the arena, the next one the slot
    after it, and so on. `rng` draws whether a tensor lies at the begin or at the end of its slot, and the
    address at which each slot is mapped. With `like`, a layout of the same workload in the same slots,
    tensors lie at the same places of their slots as there: their addresses differ by whole pages. Nothing is
    written to the arena."""
    tensors = signature.tensors
    slots = arena.slots[first : first + len(tensors)]
    addresses = window.draw_mappings([slot.bytes for slot in slots], rng)
    pointers: dict[str, Pointer] = {}
    guards: list[tuple[int, int]] = []
    for number, (tensor, slot, address) in enumerate(zip(tensors, slots, addresses, strict=True), first):
        size = workload.bytes(tensor)
        inside = (slot.bytes - size) // ALIGNMENT * ALIGNMENT if rng.random() < 0.5 else 0
        if like is not None:
            inside = like.pointers[tensor.name].offset - slot.start
        begin = slot.start + inside
        written = tensor.role == "output"
        pointers[tensor.name] = Pointer(number, begin, size, tensor.name, address + inside, written)
        if written:
            rest = ((slot.start, begin), (begin + size, slot.start + slot.bytes))
            guards += [zone for zone in rest if zone[0] < zone[1]]
    return Layout(arena, workload, pointers, tuple(guards), rng.randrange(1, 256))


def float64_views(arena: Arena, tensors: list[Tensor], workload: Workload) -> list[torch.Tensor]:
    """Views of the arena, the memory that candidates work on, as tensors: one for each of `tensors`, with its
    shape at this workload and floating types widened to float64. They are packed one after another over the
    whole arena. The float64 reference uses them for its arguments, so that these need no further memory. They
    are uninitialized; writing to them destroys what the arena held."""
    views = []
    offset = 0
    for tensor in tensors:
        dtype = torch.float64 if tensor.floating else getattr(torch, tensor.dtype)
        shape = workload.shape(tensor)
        size = prod(shape) * dtype.itemsize
        views.append(arena.memory[offset : offset + size].view(dtype).view(shape))
        offset += _rounded(size)
    return views


def _rounded(size: int) -> int:
    return window.rounded(size, ALIGNMENT)
