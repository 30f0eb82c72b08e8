"""Schedules: how a kernel is laid out on the GPU. Techniques change them.

There is one type for each kind of kernel, with the fields that mean something there and no others; a file for
each family. The type alone says which emitter writes the kernel (emission/). A schedule's `nest` binds the
kernel's axes to where they run (nest.py).

Everywhere, `threads` are those of a block; `vector_width` is the number of elements that a thread moves with
one instruction; loops over vectors or rows are unrolled `unroll` times; with `streaming`, what is touched
once is read and written past the caches; `accumulate` is the type of running sums of float32 numbers."""

import importlib
import pkgutil
from functools import cache

from kernelblaster.policies.expert.schedules.schedule import Schedule


@cache
def all_schedules() -> tuple[type[Schedule], ...]:
    """Every type of schedule of this folder, file by file."""
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
