"""KernelBlaster judges, and in time optimizes, CUDA kernels.

import kernelblaster as kb
evaluation = kb.evaluate("core/level1/softmax", "my_softmax.cu")
print(evaluation.outcome)
"""

from typing import Any

__version__ = "0.1.0"
__all__ = ["Judge", "Options", "emulate", "evaluate", "load_task", "open_device", "open_judge", "profile"]


def __getattr__(name: str) -> Any:
    """The public names, imported on first use: torch alone takes seconds."""
    if name in __all__:
        from kernelblaster import api

        return getattr(api, name)
    raise AttributeError(f"module 'kernelblaster' has no attribute '{name}'")
