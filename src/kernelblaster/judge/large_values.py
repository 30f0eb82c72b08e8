"""Fills large tensors with values like those that the task's file draws. Only a part of the values is drawn,
and the rest repeats it, which is faster."""

import random

import torch

from kernelblaster.records import Workload
from kernelblaster.tasks.values import ValuePool, fill

DRAWN = 1 << 20  # elements of a tensor that are drawn; the rest repeats parts of them


def fill_large(target: torch.Tensor, pool: ValuePool, workload: Workload, seed: int) -> None:
    """Writes values like the task file's own to `target`: about a million elements (DRAWN) are drawn from
    `pool` by `seed`, the rest repeats parts of these at random offsets. `workload` gives the size that bounds
    indices."""
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
