"""The system's data types (tasks, candidates, evaluations, profiles, performance states, steps): frozen,
comparable and serializable. No I/O and no torch in here."""

from kernelblaster.records.candidate import Candidate, Tunable
from kernelblaster.records.evaluation import (
    Compilation,
    Evaluation,
    Resources,
    Timing,
    Verification,
)
from kernelblaster.records.outcome import (
    Abandoned,
    Accepted,
    CompileFailed,
    Inconclusive,
    Incorrect,
    Outcome,
    Rejected,
    RuntimeFailed,
    Slower,
    TimedOut,
    Unsupported,
)
from kernelblaster.records.profile import KernelProfile, Metric, Profile, ProfilerAdvice
from kernelblaster.records.signature import Scalar, Signature, Size, Tensor
from kernelblaster.records.state import Bottleneck, KernelState, Optimization, State
from kernelblaster.records.step import Failed, Gained, Step, StepId, StepResult
from kernelblaster.records.target import Target
from kernelblaster.records.task import Fitness, Floor, Task
from kernelblaster.records.workload import Workload

__all__ = [
    "Abandoned",
    "Accepted",
    "Bottleneck",
    "Candidate",
    "Compilation",
    "CompileFailed",
    "Evaluation",
    "Failed",
    "Fitness",
    "Floor",
    "Gained",
    "Inconclusive",
    "Incorrect",
    "KernelProfile",
    "KernelState",
    "Metric",
    "Optimization",
    "Outcome",
    "Profile",
    "ProfilerAdvice",
    "Rejected",
    "Resources",
    "RuntimeFailed",
    "Scalar",
    "Signature",
    "Size",
    "Slower",
    "State",
    "Step",
    "StepId",
    "StepResult",
    "Target",
    "Task",
    "Tensor",
    "TimedOut",
    "Timing",
    "Tunable",
    "Unsupported",
    "Verification",
    "Workload",
]
