"""The public interface: what `import kernelblaster` offers, and what the commands call."""

from collections.abc import Callable
from pathlib import Path

from kernelblaster.devices.cuda import CudaDevice
from kernelblaster.devices.device import Device
from kernelblaster.errors import NoDevice
from kernelblaster.judge.compile import Binary, compile_candidate
from kernelblaster.judge.judge import Judge, Options
from kernelblaster.records import Candidate, Evaluation, Profile, Task
from kernelblaster.records.outcome import Outcome
from kernelblaster.tasks.catalog import load_task

DEFAULT_ARCHITECTURE = "sm_90a"


def open_device(
    task: Task | None = None,
    candidate: Candidate | None = None,
    progress: Callable[[str], None] = lambda stage: None,
) -> Device:
    """The GPU of this machine. Where there is none, the error says how far the candidate got:
    it is screened and compiled all the same."""
    try:
        return CudaDevice()
    except NoDevice as error:
        if task is None or candidate is None:
            raise
        progress("compiling")
        built = compile_candidate(task, candidate, DEFAULT_ARCHITECTURE)
        if isinstance(built, Binary):
            kernels = len(built.compilation.resources)
            state = f"it passes screening and compiles for {DEFAULT_ARCHITECTURE} ({kernels} kernels)"
        else:
            reason = getattr(built, "reason", built.kind)
            state = f"it is {built.kind}: {reason}"
        raise NoDevice(f"{error} The candidate was taken as far as that: {state}.") from error


def evaluate(task: str | Task, candidate: str | Path | Candidate, **options: object) -> Evaluation:
    """Judge one candidate on this machine's GPU. Options are those of `Options`."""
    loaded, source = _resolve(task, candidate)
    device = open_device(loaded, source)
    judge = Judge(device, Options(**options))  # type: ignore[arg-type]
    try:
        return judge.evaluate(loaded, source)
    finally:
        judge.close()
        device.close()


def profile(task: str | Task, candidate: str | Path | Candidate) -> Profile | Outcome:
    """Profile one candidate; one that fails verification gives its outcome instead."""
    loaded, source = _resolve(task, candidate)
    device = open_device(loaded, source)
    judge = Judge(device)
    try:
        return judge.profile(loaded, [source])[0]
    finally:
        judge.close()
        device.close()


def _resolve(task: str | Task, candidate: str | Path | Candidate) -> tuple[Task, Candidate]:
    loaded = load_task(task) if isinstance(task, str) else task
    if isinstance(candidate, Candidate):
        return loaded, candidate
    return loaded, Candidate(source=Path(candidate).read_text(), origin=str(candidate))
