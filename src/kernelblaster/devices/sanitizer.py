"""Runs compute-sanitizer on one call: memory errors, races, misused barriers.

Its check for uninitialized reads does not work on memory mapped at chosen addresses; the PTX machine finds
those (docs/emulator.md).
"""

import re

from kernelblaster.devices.device import ProfileJob
from kernelblaster.devices.toolbox import Toolbox
from kernelblaster.errors import DeviceLost
from kernelblaster.settings import settings

TOOLS = ("memcheck", "racecheck", "synccheck")
SHOWN = 3


def findings(toolbox: Toolbox, job: ProfileJob) -> list[str]:
    """The findings of each of its tools, one line each, with source lines where known. Raises DeviceLost if
    it is not installed."""
    sanitizer = settings().sanitizer
    if sanitizer is None:
        raise DeviceLost("compute-sanitizer was not found; it comes with the CUDA toolkit.")
    lines = []
    for tool in TOOLS:
        command = [sanitizer, "--tool", tool, "--print-limit", "20"]
        output, answers = toolbox.run(command, [job])
        if "Device not supported" in output:
            raise DeviceLost("compute-sanitizer does not support this device or system.")
        lines += parse(tool, output)
        if not answers and not lines:
            raise DeviceLost(f"compute-sanitizer {tool} ended early: {output[-300:].strip()}")
    return lines


def parse(tool: str, output: str) -> list[str]:
    """The first findings in a tool's output that are inside a kernel, one line each."""
    blocks = re.split(r"^={9} (?=\S)", output, flags=re.MULTILINE)
    lines = []
    for block in blocks:
        text = " ".join(line.lstrip("=").strip() for line in block.splitlines())
        serious = re.match(
            r"(Invalid|Uninitialized|Error: Race|Warning: Race|Barrier error|Program hit)", text
        )
        if serious and "read_all" not in text:
            lines.append(f"{tool}: {text[:400]}")
    return lines[:SHOWN]
