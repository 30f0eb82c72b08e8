"""compute-sanitizer on one call: memory errors, races, misused barriers.

Its check for uninitialized reads does not work on memory that is mapped at chosen addresses; the PTX
machine looks for those (docs/emulator.md)."""

import re

from kernelblaster.devices.device import ProfileJob
from kernelblaster.devices.toolbox import Toolbox
from kernelblaster.errors import DeviceLost
from kernelblaster.settings import settings

TOOLS = ("memcheck", "racecheck", "synccheck")
SHOWN = 3


def findings(toolbox: Toolbox, job: ProfileJob) -> list[str]:
    """What each tool reports, a line each, with source lines where the tool knows them."""
    sanitizer = settings().sanitizer
    if sanitizer is None:
        raise DeviceLost("compute-sanitizer was not found; it comes with the CUDA toolkit.")
    found = []
    for tool in TOOLS:
        command = [sanitizer, "--tool", tool, "--print-limit", "20"]
        output, answers = toolbox.run(command, [job])
        if "Device not supported" in output:
            raise DeviceLost("compute-sanitizer does not support this device or system.")
        found += parse(tool, output)
        if not answers and not found:
            raise DeviceLost(f"compute-sanitizer {tool} ended early: {output[-300:].strip()}")
    return found


def parse(tool: str, output: str) -> list[str]:
    """The first findings in a tool's output that lie in a kernel, as single lines."""
    blocks = re.split(r"^={9} (?=\S)", output, flags=re.MULTILINE)
    found = []
    for block in blocks:
        text = " ".join(line.lstrip("=").strip() for line in block.splitlines())
        serious = re.match(
            r"(Invalid|Uninitialized|Error: Race|Warning: Race|Barrier error|Program hit)", text
        )
        if serious and "read_all" not in text:
            found.append(f"{tool}: {text[:400]}")
    return found[:SHOWN]
