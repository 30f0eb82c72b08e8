"""Runs compute-sanitizer on one call of a candidate: memory errors, races, misused barriers.

compute-sanitizer's check for uninitialized reads is not used, because it does not work on memory mapped at
chosen addresses; the PTX machine, the emulator, finds such reads (docs/emulator.md).
"""

import re

from kernelblaster.devices.device import ProfileJob
from kernelblaster.devices.toolbox import Toolbox
from kernelblaster.errors import DeviceLost
from kernelblaster.settings import settings

TOOLS = ("memcheck", "racecheck", "synccheck")
SHOWN = 3


def findings(toolbox: Toolbox, job: ProfileJob) -> list[str]:
    """Runs the call of `job`, by way of `toolbox`, under each of memcheck, racecheck and synccheck (TOOLS).
    Returns what they report, one line for each error, with source lines where known; empty if they report
    nothing. Raises DeviceLost if compute-sanitizer is not installed or does not work here."""
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
    """The errors in `output` of the compute-sanitizer tool named `tool`, one line each ("memcheck: ..."), at
    most three (SHOWN). Errors in KernelBlaster's own kernels are left out. Empty if there are none."""
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
