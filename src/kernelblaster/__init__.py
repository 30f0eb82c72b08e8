"""KernelBlaster makes CUDA kernels faster, proves that they still compute the same, and learns from it.

    import kernelblaster as kb

    result = kb.optimize("core/level1/softmax")         # or a module: kb.optimize(module, inputs=[x])
    print(result.speedup, result.verdict, result.applied)
    module = result.module()                            # a torch module that runs the faster kernel

    with kb.session("core/level1/softmax") as search:   # for a loop of your own
        evaluation = search.tell(my_source)             # judges a CUDA source that you wrote
        print(search.ask())                             # techniques to try on it next

Without a GPU, candidates run on an emulator and times are modelled; results say so (`modelled`). Which
techniques paid against which bottlenecks is kept in a knowledge base, from which the search for the next task
starts. No language model is needed.
"""

import sys
from types import ModuleType

from kernelblaster.errors import KernelBlasterError

TYPE_CHECKING = False  # as type checkers read it: importing `typing` would take half of a process's start
if TYPE_CHECKING:
    from typing import Any

    from kernelblaster.api import (
        Advice,
        AskTell,
        BenchResult,
        Candidate,
        DeviceJudge,
        Evaluation,
        EvaluationOptions,
        Judge,
        KnowledgeBase,
        OptimizeResult,
        Profile,
        Progress,
        Search,
        Session,
        Step,
        Task,
        bench,
        compile,
        emulate,
        evaluate,
        load_candidate,
        load_run,
        load_task,
        open_device,
        open_judge,
        optimize,
        profile,
        resume,
        session,
        steer,
        steering_of,
        stop,
    )
    from kernelblaster.confinement.library import confine_process as confine

__version__ = "0.1.0"
__all__ = [
    "Advice",
    "AskTell",
    "BenchResult",
    "Candidate",
    "DeviceJudge",
    "Evaluation",
    "EvaluationOptions",
    "Judge",
    "KernelBlasterError",
    "KnowledgeBase",
    "OptimizeResult",
    "Profile",
    "Progress",
    "Search",
    "Session",
    "Step",
    "Task",
    "bench",
    "compile",
    "confine",
    "emulate",
    "evaluate",
    "load_candidate",
    "load_run",
    "load_task",
    "open_device",
    "open_judge",
    "optimize",
    "profile",
    "resume",
    "session",
    "steer",
    "steering_of",
    "stop",
]


def __getattr__(name: str) -> "Any":
    """Import a public name from `kernelblaster.api` on first use (PEP 562), so that `import kernelblaster`
    does not load torch, which takes seconds."""
    if name == "confine":
        from kernelblaster.confinement.library import confine_process

        return confine_process
    if name in __all__:
        from kernelblaster import api

        return getattr(api, name)
    raise AttributeError(f"module 'kernelblaster' has no attribute '{name}'")


def __dir__() -> list[str]:
    """The public names of this package, as `dir()` and completion show them; works without importing any of
    them."""
    return sorted([*__all__, "__version__"])


class _Package(ModuleType):
    """The class of this package's module object. It keeps the attributes `optimize` and `bench` bound to the
    public functions: importing the submodules of the same names would otherwise replace them."""

    def __setattr__(self, name: str, value: "Any") -> None:
        """Sets an attribute of the package. Ignored is only that Python's import assigns the submodule
        `optimize` or `bench`, which would hide the public function of that name."""
        if not (name in __all__ and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
