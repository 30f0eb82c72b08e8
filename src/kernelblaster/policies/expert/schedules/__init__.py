"""Schedules: how kernels are laid out on the GPU. A technique (techniques/) changes a kernel by giving it
another schedule.

There is one class for each way to lay out a kernel, and one file for each family of kernels. The class
decides which emitter writes the kernel as CUDA (emission/). Its method `nest` says where each loop of the
kernel runs: on the grid, the warps, the lanes, the elements of a vector, or serially (nest.py).

Fields that several classes have: `threads` is the number of threads of a block; `vector_width` is how many
elements a thread loads or stores with one instruction; `unroll` is by how much loops over vectors or rows are
unrolled; with `streaming`, data that is accessed only once is read and written with the streaming cache hint
(`__ldcs`, `__stcs`); `accumulate` is the type in which float32 numbers are summed.
"""

import importlib
import pkgutil
from functools import cache

from kernelblaster.policies.expert.schedules.schedule import Schedule


@cache
def all_schedules() -> tuple[type[Schedule], ...]:
    """Returns all classes of this folder that are a way to lay out a kernel, without private base classes, in
    the alphabetical order of their files."""
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
