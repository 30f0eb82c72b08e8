"""A candidate on the PTX machine: verified at small sizes, every access checked, counted."""

import secrets
from dataclasses import dataclass
from typing import Any

from kernelblaster.devices.device import CandidateDied, CandidateHung
from kernelblaster.devices.emulated import EmulatedDevice
from kernelblaster.errors import BadTask
from kernelblaster.judge.baseline import ModuleBaseline
from kernelblaster.judge.compile import Binary, compile_candidate
from kernelblaster.judge.layout import arena_bytes
from kernelblaster.judge.verify import Case, Verifier, focus_cases
from kernelblaster.records import Candidate, Outcome, RuntimeFailed, Task, TimedOut, Verification
from kernelblaster.tasks.values import Distribution

LARGEST_BYTES = 4 << 20
OTHERS: tuple[Distribution, ...] = ("scaled", "large", "shifted", "ramp", "spiky")


@dataclass(frozen=True)
class Emulation:
    """`outcome` is a Verification where the candidate is right as far as it was tried; `launches` are
    the machine's counts of the last call, kernel by kernel."""

    outcome: Verification | Outcome
    launches: list[dict[str, Any]]


def emulate(task: Task, candidate: Candidate, gpu: str = "h200") -> Emulation:
    """Verify a candidate without a GPU, on workloads that an emulator can manage."""
    if task.kind != "module":
        raise BadTask(f"{task.name}: only PyTorch modules can be emulated so far.")
    device = EmulatedDevice(task.signature, gpu)
    try:
        binary = compile_candidate(task, candidate, device.spec.architecture)
        if not isinstance(binary, Binary):
            return Emulation(binary, [])
        device.arena(arena_bytes(task.signature, _cases(task)[0].workload))
        return _verify(device, task, binary)
    finally:
        device.close()


def _verify(device: EmulatedDevice, task: Task, binary: Binary) -> Emulation:
    try:
        runner = device.start(binary.path)
    except CandidateDied as error:
        return Emulation(RuntimeFailed(reason=str(error), evidence="while being loaded"), [])
    except CandidateHung as error:
        return Emulation(TimedOut(stage="verify", limit_s=error.limit_s), [])
    try:
        baseline = ModuleBaseline(task, device, small=True)
        seed = secrets.randbits(60)
        outcome = Verifier(device, task, baseline, runner, seed, _cases(task)).verify()
        return Emulation(outcome, runner.reports)
    finally:
        runner.close()


def _cases(task: Task) -> list[Case]:
    """The small workload in several arrangements, then with each argument moved in turn."""
    workload = task.small
    if workload is None or workload.total_bytes(task.signature) > LARGEST_BYTES:
        raise BadTask(
            f"{task.name}: has no workload that is small enough to be emulated; give it one with SMALL "
            "(docs/tasks.md)."
        )
    return [
        Case(workload, "written", runs=2, moved=False),
        *(Case(workload, other) for other in OTHERS),
        *focus_cases(task, workload),
    ]
