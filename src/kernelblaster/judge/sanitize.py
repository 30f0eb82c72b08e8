"""Runs compute-sanitizer (on the emulated device, the emulator's own checks) on a candidate that was found
correct."""

from kernelblaster.devices.device import Device, ProfileJob
from kernelblaster.judge.compile import Binary
from kernelblaster.judge.prepare import Prepared
from kernelblaster.judge.profile import filled_layout
from kernelblaster.records import Rejected

CLEAN = "compute-sanitizer: found nothing at the smallest workload"


def sanitize(device: Device, prepared: Prepared, binary: Binary) -> Rejected | None:
    """Runs the device's memory and race checker (compute-sanitizer on a GPU) on one call at the task's
    smallest workload. Returns Rejected with its findings, or None if there are none. `prepared` is the task
    with its reference, `binary` the compiled candidate."""
    task = prepared.task
    layout = filled_layout(device, task, prepared.baseline, task.smallest)
    arguments = layout.arguments(task.signature, prepared.baseline.at(task.smallest).scalars)
    findings = device.findings(ProfileJob(binary.path, arguments, task.smallest.name))
    return Rejected(reason="sanitizer", evidence="\n".join(findings)) if findings else None
