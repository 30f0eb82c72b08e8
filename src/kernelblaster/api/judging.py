"""`evaluate`, `profile` and `emulate`: judge, profile or check one candidate without a search."""

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
    """Judges one candidate and returns its evaluation: whether it is correct, how much faster it is than the
    baseline (eager PyTorch, or the original CUDA kernel), and the results of compiling, verifying and timing
    it.

    `task` and `candidate` may be names, files or texts (see `load_task`, `load_candidate`). On a machine
    without a GPU, or with `device="emulated"`, the PTX machine (an emulator on the CPU) stands for `gpu`, and
    times are modelled. `inputs` are example inputs, for a task that is given as a module. `options` are
    fields of `EvaluationOptions`."""
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
    """Profiles one candidate (a `.cu` file or its text): returns the metrics of every kernel, in launch
    order. If it fails verification, returns the outcome that says why instead. `task` may be a name, a file,
    a text or a module, which needs example `inputs`. `device` says where the candidate runs. `gpu` is the GPU
    that an emulated device stands for (None: the default one); times are then modelled."""
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
    """Checks one candidate at a small size on the PTX machine, an emulator on the CPU that stands for `gpu`;
    no GPU is needed. The returned object has two attributes. `outcome` is a `Verification` if the candidate
    is correct and every memory access is allowed, otherwise the outcome that says what is wrong. `counters`
    are counts of what it did (instructions, traffic), None if there are none. `inputs` are example inputs,
    for a task that is given as a module."""
    loaded = load_task(task, inputs=inputs)
    source = load_candidate(candidate, loaded)
    with open_judge("emulated", gpu) as judge:
        return judge.check(loaded, source)
