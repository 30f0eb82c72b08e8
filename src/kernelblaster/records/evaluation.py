"""Everything that judging one candidate gave."""

from kernelblaster.records.outcome import Outcome, Speedup
from kernelblaster.records.profile import Profile
from kernelblaster.records.record import Record


class Resources(Record):
    """ptxas' report on one kernel."""

    kernel: str
    registers: int
    shared_bytes: int
    constant_bytes: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    barriers: int


class Compilation(Record):
    seconds: float
    cached: bool
    architecture: str
    compiler: str
    resources: tuple[Resources, ...]


class Errors(Record):
    """Errors relative to the float64 reference, by five measures without unit.

    `rms` and `worst` are divided by the root mean square of the reference; `tile` is the worst RMS error of
    any 256 neighbours, divided by their own. Of the relative errors of single elements, `relative` is the
    95th percentile and `lost` the share above one half.
    """

    rms: float
    worst: float
    tile: float
    relative: float
    lost: float


class CaseResult(Record):
    """One comparison: an output at a workload with a distribution of values. `bound` are the errors that were
    allowed; `candidate` is None where the output was not finite although the reference is."""

    workload: str
    distribution: str
    output: str
    candidate: Errors | None
    baseline: Errors | None
    bound: Errors
    passed: bool


class Verification(Record):
    cases: tuple[CaseResult, ...]
    calls: int
    deterministic: bool
    seconds: float
    notes: tuple[str, ...] = ()


ORIGINAL_KERNEL = "original kernel"  # the baseline of a task that is a CUDA source


class Timing(Record):
    """Paired samples at the primary workload, with a cold L2 cache and fresh values in every sample; times in
    microseconds. If `modelled`, there is one sample, no wall clock, and the interval is the model's error.
    `pairs_us` are all (baseline, candidate) samples, if they were kept."""

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
    """The outcome with its evidence; stages that were not reached are None. `counters` are what an emulating
    device counted in the last verified call; `device_seconds` is how long the candidate occupied the device;
    `seed` determined all random draws and is secret until the verdict."""

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
