"""Estimates: modelled times of compiled candidates, computed before a GPU is used, to choose which of them to
judge."""

from collections.abc import Callable, Sequence

from kernelblaster.devices.device import CandidateDied, CandidateHung, GpuFacts
from kernelblaster.devices.emulated import EmulatedDevice
from kernelblaster.devices.specs import GpuSpec
from kernelblaster.errors import DeviceLost, KernelBlasterError
from kernelblaster.judge.baseline import Baseline, KernelBaseline, ModuleBaseline
from kernelblaster.judge.compile import Binary, compile_candidate, compilers
from kernelblaster.judge.modelled import ModelledTimer, total_us
from kernelblaster.records import Candidate, Profile, Task

LIMIT_S = 6.0  # that modelling one candidate may take: what takes longer is hardly the fastest


def estimates(
    estimator: "Estimator", task: Task, candidates: Sequence[Candidate], architecture: str
) -> list[float | None]:
    """Returns the modelled time in us of each candidate for `task` at the task's primary workload (the sizes
    that are timed); None where it does not compile, fails, or cannot be modelled. Candidates are compiled for
    `architecture` (like sm_90a), in parallel; `estimator` then models them one after another."""
    with compilers() as pool:
        compiled = pool.map(lambda candidate: compile_candidate(task, candidate, architecture), candidates)
        binaries = list(compiled)
    return [
        estimator.microseconds(task, binary) if isinstance(binary, Binary) else None for binary in binaries
    ]


class Estimator:
    """Models how long candidates take on the GPU `spec`, and makes profiles that show why. It uses an
    emulator of its own, and verifies nothing. `facts()` gives the device attributes that host code sees; if
    it gives None, those that follow from `spec` are used."""

    def __init__(self, spec: GpuSpec, facts: Callable[[], GpuFacts | None] = lambda: None) -> None:
        self._spec = spec
        self._facts = facts
        self._device: EmulatedDevice | None = None
        self._timers: dict[str, ModelledTimer] = {}

    def microseconds(self, task: Task, binary: Binary) -> float | None:
        """Returns the modelled time in us of the compiled candidate `binary` at the task's primary workload
        (the sizes that are timed). None if it cannot be modelled: if the candidate fails, takes longer than
        six seconds (LIMIT_S) to model, or has an instruction that is not emulated, or if the task has no
        workload small enough for the emulator. Raises DeviceLost if the emulator fails."""
        try:
            found = self.profile(task, binary)
            return None if found is None else total_us(found)
        except KernelBlasterError:  # a kernel whose time cannot be modelled
            return None

    def profile(self, task: Task, binary: Binary) -> Profile | None:
        """Returns the modelled profile of the compiled candidate `binary` at the task's primary workload (the
        sizes that are timed). None if the candidate fails, if modelling it takes longer than six seconds
        (LIMIT_S), or if it or its task cannot be emulated. Raises DeviceLost if the emulator fails."""
        try:
            return self._timer(task, binary).profiles([binary], LIMIT_S)[0]
        except DeviceLost:
            raise
        except (CandidateDied, CandidateHung, KernelBlasterError):
            return None

    def close(self) -> None:
        self._timers.clear()
        if self._device is not None:
            self._device.close()
            self._device = None

    def _timer(self, task: Task, binary: Binary) -> ModelledTimer:
        """The timer that models candidates of this task, made once for each task. `binary` is run where the
        inputs of a CUDA task are needed, for which any compiled kernel will do."""
        if self._device is None:
            self._device = EmulatedDevice(self._spec, self._facts())
        if task.digest not in self._timers:
            baseline: Baseline
            if task.kind == "module":
                baseline = ModuleBaseline(task, self._device, small=True)
            else:
                baseline = KernelBaseline(task, self._device, binary.path)
            self._timers[task.digest] = ModelledTimer(self._device, task, baseline)
        return self._timers[task.digest]
