"""Makes a task of a class that Python can import, named as package.module:CLASS: writes the text of the task.
So a module of the user's own package can be optimized where it is."""

import importlib.util
import sys
from pathlib import Path

from kernelblaster.errors import BadTask
from kernelblaster.tasks.local_modules import with_package


def imported_source(module: str, name: str) -> str:
    """Returns a Python text that imports the class `name` from `module`. Local modules, found below the
    working folder, are embedded in the text; installed ones are imported when it runs. Raises BadTask if
    there is no such module."""
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
