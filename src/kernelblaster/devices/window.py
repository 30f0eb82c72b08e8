"""The window of virtual addresses in which candidates get their memory, the same in every process that works
for one judge.

Tensors, scratch memory and `__device__` variables have a part of the window each. Positions in these parts
are drawn at random for every call, with unmapped pages between mappings, so that addresses tell a candidate
nothing about the call.
"""

import random
import secrets
from collections.abc import Mapping, Sequence

BYTES = 1 << 40
# Drawn for each judge: no address is known beforehand. ELSEWHERE is used for recordings only, to see that
# host code does not ask where it is. Neither is where a process keeps its own code and libraries.
_DRAWN = random.Random(secrets.randbits(64)).sample(range(0x20, 0x50), 2)
BEGIN, ELSEWHERE = (BYTES * number for number in _DRAWN)
PAGE = 2 << 20  # the granularity of device mappings
TENSORS, SCRATCH, GLOBALS = BEGIN, BEGIN + (5 << 37), BEGIN + (7 << 37)
SCRATCH_BYTES = 1 << 37  # of one call
MOST_GAP_PAGES = 64
STARTS = 1 << 17  # pages among which the first mapping begins


def rounded(size: int, unit: int = PAGE) -> int:
    """How many bytes a mapping of `size` bytes takes: `size` rounded up to a multiple of `unit` bytes
    (default: a page of 2 MiB), at least one `unit`."""
    return max(1, -(-size // unit)) * unit


def draw_mappings(sizes: Sequence[int], rng: random.Random) -> list[int]:
    """Draws, by `rng`, a virtual address for a mapping of each of `sizes` (in bytes), in the part of the
    window for tensors. The mappings lie in random order, with a random number of unmapped pages between them;
    addresses are returned in the order of `sizes`. Raises ValueError if they do not fit."""
    order = list(range(len(sizes)))
    rng.shuffle(order)
    addresses = [0] * len(sizes)
    position = TENSORS + PAGE * rng.randrange(STARTS)
    for index in order:
        addresses[index] = position
        position += rounded(sizes[index]) + PAGE * rng.randint(1, MOST_GAP_PAGES)
    if position >= SCRATCH:
        raise ValueError("the tensors do not fit into the window of addresses")
    return addresses


def draw_scratch(rng: random.Random) -> int:
    """Draws, by `rng`, the virtual address at which a call's scratch memory (cudaMallocAsync) begins."""
    return SCRATCH + PAGE * rng.randrange(STARTS // 4)


def draw_globals(sizes: Mapping[str, int], rng: random.Random) -> dict[str, int]:
    """Draws, by `rng`, a virtual address for each global variable. `sizes` has their sizes in bytes by name;
    the result has the addresses by name. Only host code sees these: the player, which replays the launches,
    puts the real addresses in their place."""
    position = GLOBALS + PAGE * rng.randrange(1 << 12)
    addresses = {}
    for name, size in sizes.items():
        addresses[name] = position
        position += rounded(size, 4096) + 4096
    return addresses
