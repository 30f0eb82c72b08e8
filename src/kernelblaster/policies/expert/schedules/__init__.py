"""Schedules: how a kernel is laid out on the GPU. The optimization techniques (techniques/) replace them.

There is one class for each way to lay out a kernel, and one file for each family of kernels. The class
decides which emitter writes the kernel as CUDA (emission/). Its method `nest` says where each loop of the
kernel runs: on the grid, the warps, the lanes, the elements of a vector, or serially (nest.py).

In all of them, `threads` are those of a block; `vector_width` is the number of elements that a thread moves
with one instruction; loops over vectors or rows are unrolled `unroll` times; with `streaming`, data that is
touched once is read and written with the streaming cache hint (`__ldcs`, `__stcs`); `accumulate` is the type
of running sums of float32 numbers."""

import importlib
import pkgutil
from functools import cache

from kernelblaster.policies.expert.schedules.schedule import Schedule


@cache
def all_schedules() -> tuple[type[Schedule], ...]:
    """Every public class of this folder that is a way to lay out a kernel, in the alphabetical order of its
    files."""
    names = [found.name for found in pkgutil.iter_modules(__path__)]
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return tuple(
        found
        for module in modules
        for name, found in vars(module).items()
        if isinstance(found, type)
        and issubclass(found, Schedule)
        and found.__module__ == module.__name__
        and hasattr(found, "family")
        and not name.startswith("_")
    )
