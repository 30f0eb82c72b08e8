"""The result of judging one candidate, with what each stage found: compilation, verification, timing."""

from typing import Literal

from kernelblaster.records.outcome import Outcome, Speedup
from kernelblaster.records.profile import Profile
from kernelblaster.records.record import Record

BaselineName = Literal["eager", "compile", "max-autotune", "iree"]
"""What a PyTorch module is timed as."""


class Resources(Record):
    """What ptxas reports on one kernel; `kernel` is its mangled name. `registers` are per thread,
    `shared_bytes` is static shared memory per block, `constant_bytes` is constant memory. `stack_bytes`, and
    the bytes of registers that are spilled (stored and loaded again), are per thread. `barriers` is how many
    named barriers it uses."""

    kernel: str
    registers: int
    shared_bytes: int
    constant_bytes: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    barriers: int


class Compilation(Record):
    """How a candidate was compiled. `seconds` is how long nvcc took. If the binary came from the cache,
    `cached` is True, and `seconds` is how long nvcc took at that time. `architecture` is like sm_90a,
    `compiler` a name with its version, `resources` are ptxas' reports on each kernel."""

    seconds: float
    cached: bool
    architecture: str
    compiler: str
    resources: tuple[Resources, ...]


class Errors(Record):
    """How far one output is from the float64 reference, by five measures without a unit; 0 is exact.

    `rms` is the root mean square (RMS) of all elements' errors, `worst` the largest error of any element;
    both are divided by the RMS of the reference. `tile` is the same as `rms` for the worst 256 neighbouring
    elements, divided by the RMS of the reference there. Two measures are about the relative errors of single
    elements: `relative` is their 95th percentile; `lost` is the share of elements (0 to 1) with a relative
    error above one half.
    """

    rms: float
    worst: float
    tile: float
    relative: float
    lost: float


class CaseResult(Record):
    """One comparison of one output tensor with the float64 reference. `workload`, `distribution` (the kind of
    input values) and `output` (the tensor) are names. `candidate` are the candidate's errors; None if its
    output was NaN or infinite where the reference is finite, or the reverse. `baseline` are PyTorch's own
    errors, None without a reference. `bound` are the errors that were allowed. `passed`: the candidate's are
    within them."""

    workload: str
    distribution: str
    output: str
    candidate: Errors | None
    baseline: Errors | None
    bound: Errors
    passed: bool


class Verification(Record):
    """The result of a verification that was passed. `cases` are all comparisons, `calls` is how often the
    candidate was called. `deterministic`: repeated calls gave the same bits. `seconds` is how long it took.
    `notes` say what could not be checked, or was checked in addition."""

    cases: tuple[CaseResult, ...]
    calls: int
    deterministic: bool
    seconds: float
    notes: tuple[str, ...] = ()


ORIGINAL_KERNEL = "original kernel"  # the baseline of a task that is a CUDA source


class Timing(Record):
    """The speed of a correct candidate at the sizes of the task's file, compared with `baseline`: the name of
    eager PyTorch, torch.compile, the user's kernel, or another one. `speedup` is baseline time over candidate
    time. Candidate and baseline were run in `samples` pairs, with a cold L2 cache and fresh values in each.
    Times are medians in us.

    `candidate_wall_us` is by the wall clock, `candidate_activity_us` the sum of the launches timed one by
    one, `floor_us` the least time that the GPU's bandwidth and peak rates allow. If `modelled`, times come
    from a model of the GPU: there is one sample, no wall clock, and the interval is the model's error.
    `pairs_us` are all (baseline, candidate) samples, if they were kept. `seconds` is how long timing took.
    """

    baseline: str
    baseline_us: float
    candidate_us: float
    speedup: Speedup
    samples: int
    candidate_wall_us: float | None
    candidate_activity_us: float | None
    floor_us: float
    modelled: bool = False
    seconds: float
    pairs_us: tuple[tuple[float, float], ...] = ()


class Evaluation(Record):
    """Everything that judging one candidate gave. `candidate` is the candidate's digest; `defines` are the
    values of its tunable constants. `task` and `device` are names. `outcome` is the verdict. `compilation`,
    `verification`, `timing` and `profile` are what these stages found, None for a stage that was not reached.
    `counters` are what an emulating device counted in the last verified call. `seconds` is the time of the
    whole evaluation, `device_seconds` how long it occupied the device. `seed` determined all random draws of
    inputs and sizes and is secret until the verdict; None if nothing was drawn."""

    task: str
    candidate: str
    device: str
    outcome: Outcome
    defines: tuple[tuple[str, int], ...] = ()
    compilation: Compilation | None = None
    verification: Verification | None = None
    timing: Timing | None = None
    counters: Profile | None = None
    profile: Profile | None = None
    seconds: float
    device_seconds: float = 0.0
    seed: int | None = None
