"""A class that can be imported, as the text of a task."""

import importlib.util
import sys
from pathlib import Path

from kernelblaster.errors import BadTask
from kernelblaster.tasks.beside import with_package


def imported_source(module: str, name: str) -> str:
    """The text that imports the class. Modules below the working folder are taken into it; those that are
    installed are imported where the task is run."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        found = None
    finally:
        sys.path.remove(here)
    if found is None:
        raise BadTask(
            f"{module}:{name}: there is no module {module}, neither installed nor below the working folder."
        )
    return with_package(f"import torch\nfrom {module} import {name}\n", Path.cwd())
