"""Builds KernelBlaster's C++ executables and libraries in the keeper, the command's trusted process. The
confined processes, which run the code of task files, may use them but not change them."""

import re
from collections.abc import Callable

from kernelblaster.building import telling
from kernelblaster.devices.native_build import emulating_player, launcher_executable, recorder_executable
from kernelblaster.errors import KernelBlasterError
from kernelblaster.keeper import Data
from kernelblaster.ptx.build import machine_library

ARCHITECTURE = re.compile(r"sm_\d{2,3}[af]?")


def build(message: Data, tell: Callable[[str], None]) -> Data:
    """Builds one native part of KernelBlaster, unless the cache has it. `message["what"]` names the part:
    "recorder" (the executable that records a candidate's launches), "launcher" (the one that replays them on
    a GPU of `message["architecture"]`, like "sm_90"), "machine" (the PTX emulator's library) or "emulated"
    (the executable that replays launches on the emulator). `tell` is called with progress as text. Returns
    {}. Raises KernelBlasterError for any other name, or if the build fails."""
    parts = {"recorder": recorder_executable, "emulated": emulating_player, "machine": machine_library}
    what, architecture = message.get("what"), str(message.get("architecture"))
    with telling(tell):
        if what == "launcher" and ARCHITECTURE.fullmatch(architecture):
            launcher_executable(architecture)
        elif what in parts:
            parts[what]()
        else:
            raise KernelBlasterError("the keeper was asked to build something else than its own parts.")
    return {}
