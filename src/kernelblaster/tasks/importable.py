"""The text of a task for a class that can be imported."""

import importlib.util
import sys
from pathlib import Path

from kernelblaster.errors import BadTask
from kernelblaster.tasks.local_modules import with_package


def imported_source(module: str, name: str) -> str:
    """A text that imports the class. Modules below the working folder are embedded; installed ones are
    imported where the task is run."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        spec = None
    finally:
        sys.path.remove(here)
    if spec is None:
        raise BadTask(
            f"{module}:{name}: there is no module {module}, neither installed nor below the working folder."
        )
    return with_package(f"import torch\nfrom {module} import {name}\n", Path.cwd())
