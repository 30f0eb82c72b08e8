"""Checks that a candidate's call wrote to nothing but its outputs: inputs, parameters and the guard zones
(the unused memory around outputs) must be unchanged."""

import torch

from kernelblaster.judge.layout import Layout
from kernelblaster.judge.stop import Stop
from kernelblaster.records import Rejected, Signature

_LOW = 0xFFFF_FFFF
_MIX = (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)  # odd constants of a well-known 64-bit finalizer
PIECE = 1 << 25  # words that are hashed at once


class MemoryCheck:
    """Checks that a candidate's call wrote to nothing but its outputs. Make this object before the call, with
    the `layout` (where the call's tensors lie) and the task's `signature` (which of them are outputs), and
    call `stop_if_touched` after the call: hashes of inputs and parameters must be the same. `key` goes into
    the hashes and must be unknown to the candidate. With `protected`, the device maps inputs and parameters
    read-only, so they are not hashed, and only the guard bytes around outputs are checked."""

    def __init__(self, layout: Layout, signature: Signature, key: int, *, protected: bool) -> None:
        self._layout = layout
        self._tensors = () if protected else signature.read_tensors
        self._key = key
        self._before = self._hashes()

    def _hashes(self) -> list[torch.Tensor]:
        return [keyed_hash(self._layout.raw(tensor), self._key) for tensor in self._tensors]

    def stop_if_touched(self) -> None:
        """Raises Stop with a Rejected outcome if the call changed a guard byte (outside every tensor), an
        input or a parameter."""
        offset = self._layout.broken_guard()
        if offset is not None:
            raise Stop(
                Rejected(
                    reason="out-of-bounds-write",
                    evidence=f"a byte outside every tensor was changed, {self._layout.neighbour(offset)}",
                )
            )
        for tensor, old, new in zip(self._tensors, self._before, self._hashes(), strict=True):
            if not torch.equal(old, new):
                raise Stop(Rejected(reason="input-modified", evidence=f"{tensor.name} was written to"))


def keyed_hash(raw: torch.Tensor, key: int) -> torch.Tensor:
    """A 64-bit hash of the bytes in `raw`, as a tensor with one int64. The address of `raw` must be a
    multiple of 8. Every 8-byte word is mixed with `key` and with its index, then all are added up. So nobody
    can make two changes that cancel without knowing the key."""
    whole = raw.numel() // 8 * 8
    words = raw[:whole].view(torch.int64)
    total = torch.zeros((), dtype=torch.int64, device=raw.device)
    if whole < raw.numel():
        total = _mixed_sum(raw[whole:].long(), key ^ 0x5BD1E995)
    for start in range(0, words.numel(), PIECE):
        total = total + _mixed_sum(words[start : start + PIECE], key + start)
    return total


def _mixed_sum(words: torch.Tensor, key: int) -> torch.Tensor:
    """The sum (mod 2^64, as one int64) of all words, each mixed with its index and the key."""
    mixed = torch.arange(words.numel(), device=words.device)
    mixed.mul_(_MIX[1]).add_(key & 0x7FFF_FFFF_FFFF_FFFF).bitwise_xor_(words)
    for factor in _MIX:
        mixed.bitwise_xor_((mixed >> 32).bitwise_and_(_LOW)).mul_(factor)
    return mixed.bitwise_xor_((mixed >> 32).bitwise_and_(_LOW)).sum()
