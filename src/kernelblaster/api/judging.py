"""`evaluate`, `profile` and `emulate`: verify and time, profile, or check one candidate without a search."""

from kernelblaster.api.subjects import CandidateLike, Inputs, TaskLike, load_candidate, load_task
from kernelblaster.devices.emulated import DEFAULT_GPU
from kernelblaster.judge.under_test import Checked
from kernelblaster.opening import DeviceKind, open_judge
from kernelblaster.records import Evaluation, Profile
from kernelblaster.records.outcome import Outcome


def evaluate(
    task: TaskLike,
    candidate: CandidateLike,
    device: DeviceKind = "auto",
    gpu: str | None = None,
    *,
    inputs: Inputs | None = None,
    **options: object,
) -> Evaluation:
    """Judge one candidate: is it correct, is it faster than the baseline (eager PyTorch, or the original CUDA
    kernel), and by how much.

    `task` and `candidate` may be names, files or texts (see `load_task`, `load_candidate`). Without a GPU, or
    with `device="emulated"`, the PTX machine (an emulator on the CPU) stands for `gpu` and the time is
    modelled. `inputs` are examples for a task that is given as a module; `options` are fields of
    `EvaluationOptions`."""
    loaded = load_task(task, inputs=inputs)
    source = load_candidate(candidate, loaded)
    with open_judge(device, gpu, **options) as judge:
        return judge.evaluate(loaded, source)


def profile(
    task: TaskLike,
    candidate: CandidateLike,
    device: DeviceKind = "auto",
    gpu: str | None = None,
    *,
    inputs: Inputs | None = None,
) -> Profile | Outcome:
    """Profile one candidate (a `.cu` file or its text): metrics of every kernel in launch order. If it fails
    verification, returns the outcome that says why instead. Arguments as for `evaluate`."""
    loaded = load_task(task, inputs=inputs)
    source = load_candidate(candidate, loaded)
    with open_judge(device, gpu) as judge:
        return judge.profile(loaded, [source])[0]


def emulate(
    task: TaskLike,
    candidate: CandidateLike,
    gpu: str = DEFAULT_GPU,
    *,
    inputs: Inputs | None = None,
) -> Checked:
    """Check one candidate at a small size on the PTX machine, an emulator on the CPU that stands for `gpu`:
    correctness, every memory access, and performance counters. No GPU is needed. `inputs` are examples for a
    task that is given as a module."""
    loaded = load_task(task, inputs=inputs)
    source = load_candidate(candidate, loaded)
    with open_judge("emulated", gpu) as judge:
        return judge.check(loaded, source)
