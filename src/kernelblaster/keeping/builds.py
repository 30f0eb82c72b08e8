"""Builds this program's native parts for a confined command, which may not change them."""

import re
from collections.abc import Callable

from kernelblaster.building import telling
from kernelblaster.devices.native_build import emulating_player, launcher_executable, recorder_executable
from kernelblaster.errors import KernelBlasterError
from kernelblaster.keeper import Data
from kernelblaster.ptx.build import machine_library

ARCHITECTURE = re.compile(r"sm_\d{2,3}[af]?")


def build(message: Data, tell: Callable[[str], None]) -> Data:
    """Build what a message asks for, unless the cache has it: a "recorder", a "launcher" for an
    "architecture", the "machine", or the "emulated" player. `tell` is called with progress. Raises
    KernelBlasterError."""
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
