"""Fills large tensors with values like those that the task's file draws. Only a part of the values is drawn,
and the rest repeats it, which is faster."""

import random

import torch

from kernelblaster.records import Workload
from kernelblaster.tasks.values import ValuePool, fill

DRAWN = 1 << 20  # elements of a tensor that are drawn; the rest repeats parts of them


def fill_large(target: torch.Tensor, pool: ValuePool, workload: Workload, seed: int) -> None:
    """Writes values like the task file's own to `target`. About a million elements (DRAWN) are drawn from
    `pool` by `seed`, and the rest repeats parts of these at random offsets. A tensor with at most twice as
    many elements, or with values in a triangle only, is drawn completely. Values that are indices stay below
    the extent that `workload` has for the size `pool.bound`."""
    flat = target.view(-1)
    if pool.triangle is not None or flat.numel() <= 2 * DRAWN:
        fill(target, pool, "written", workload, seed)
        return
    fill(flat[:DRAWN], pool, "written", workload, seed)
    rng = random.Random(seed)
    at = DRAWN
    while at < flat.numel():
        count = min(rng.randrange(DRAWN // 2, DRAWN), flat.numel() - at)
        begin = rng.randrange(DRAWN - count + 1)
        flat[at : at + count] = flat[begin : begin + count]
        at += count
