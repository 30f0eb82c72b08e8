"""The requests that can be sent to the owner of a device, and the choice of the judge that answers them."""

import hashlib
from dataclasses import dataclass
from typing import Literal

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.records import Candidate, Evaluation, Task
from kernelblaster.records.evaluation import BaselineName
from kernelblaster.records.profile import Depth

OwnedKind = Literal["cuda", "emulated"]


@dataclass(frozen=True)
class DeviceFacts:
    """The description of a device that another process owns: its name, the GPU's data (`spec`), and whether
    times on it are `modelled`."""

    name: str
    spec: GpuSpec
    modelled: bool


@dataclass(frozen=True)
class JudgeChoice:
    """Which judge answers a request. `kind` is its device: a GPU ("cuda") or the PTX machine, an emulator
    ("emulated"). `gpu` is the short name of the GPU that is wanted (None: any), or that the PTX machine
    stands for (None: the default one). Candidates are timed against `baseline`. `searching`: on a PTX
    machine, evaluations include a profile, which costs no extra time there. `filter` "emulated": the emulator
    checks a candidate before a GPU runs it. `sanitize`: compute-sanitizer is run too."""

    kind: OwnedKind
    gpu: str | None = None
    baseline: BaselineName = "eager"
    searching: bool = True
    filter: Literal["emulated"] | None = None
    sanitize: bool = False


@dataclass(frozen=True)
class DescribeRequest:
    """Asks for a description of the device that the judge of `choice` would use; the answer is a
    `DeviceFacts`. The device is opened for it. With `healthy`, a device that is not fit for timing (see
    health.py) is not opened, and the answer is a NoDevice error."""

    choice: JudgeChoice
    healthy: bool = False


@dataclass(frozen=True)
class PrepareRequest:
    """Asks the judge that `choice` describes, on the device of an owner, to prepare a task. The answer is
    that of `Judge.prepare`: (fitness, floor). The fitness says whether candidates can be judged for the task;
    the floor is the least bytes and operations that it needs."""

    choice: JudgeChoice
    task: Task


@dataclass(frozen=True)
class EvaluateRequest:
    """Asks for the evaluation of one candidate for `task`, by the judge that `choice` describes. The
    candidate is compiled before a device gets the request. The answer is an Evaluation."""

    choice: JudgeChoice
    task: Task
    candidate: Candidate


@dataclass(frozen=True)
class ConfirmRequest:
    """Asks the judge that `choice` describes to check a correct candidate for `task` for races and memory
    order in the emulator; `evaluation` is the verdict on it so far. The answer is that of `Judge.confirmed`:
    the evaluation, with another outcome if the check found something."""

    choice: JudgeChoice
    task: Task
    candidate: Candidate
    evaluation: Evaluation


@dataclass(frozen=True)
class ProfileRequest:
    """Asks the judge that `choice` describes to profile candidates of one task; `depth` says how much is
    collected: "quick" (what performance states are named from), "usual" (also the profiler's advice) or
    "detailed" (also counts by instruction). The answer is that of `Judge.profile`: a list with the profile of
    each candidate or, for a candidate that fails verification, the outcome."""

    choice: JudgeChoice
    task: Task
    candidates: tuple[Candidate, ...]
    depth: Depth


@dataclass(frozen=True)
class EstimateRequest:
    """Asks the judge that `choice` describes how long candidates for `task` take by the timing model of the
    GPU, without verifying them. The answer is a list with a time in us for each candidate, None where there
    is no estimate, as by `Judge.estimate`."""

    choice: JudgeChoice
    task: Task
    candidates: tuple[Candidate, ...]


Request = (
    DescribeRequest | PrepareRequest | EvaluateRequest | ConfirmRequest | ProfileRequest | EstimateRequest
)
KINDS: dict[type, str] = {
    DescribeRequest: "describe",
    PrepareRequest: "prepare",
    EvaluateRequest: "evaluate",
    ConfirmRequest: "confirm",
    ProfileRequest: "profile",
    EstimateRequest: "estimate",
}
"""The names of requests in statistics and messages."""


def work_of(request: Request) -> str:
    """Returns 32 hexadecimal digits that identify the work that a request asks for: its kind, the device, the
    baseline, the task and the candidates' code. Equal for requests that run the same code on the same kind of
    device."""
    choice = request.choice
    parts = [KINDS[type(request)], choice.kind, choice.gpu or "", choice.baseline]
    if not isinstance(request, DescribeRequest):
        parts.append(request.task.digest)
    if isinstance(request, EvaluateRequest | ConfirmRequest):
        parts.append(request.candidate.code)
    if isinstance(request, ProfileRequest | EstimateRequest):
        parts += [candidate.code for candidate in request.candidates]
    return hashlib.sha256("/".join(parts).encode()).hexdigest()[:32]


def task_digest(request: Request) -> str:
    """A hash of the task that the request is about; empty for a request that is about the device alone."""
    return "" if isinstance(request, DescribeRequest) else request.task.digest


def described(request: Request) -> str:
    """What a request asks for, in words for messages: its kind, the candidates' codes and the task's name."""
    kind = KINDS[type(request)]
    if isinstance(request, DescribeRequest):
        return kind
    codes = ""
    if isinstance(request, EvaluateRequest | ConfirmRequest):
        codes = f" candidate {request.candidate.code} of"
    if isinstance(request, ProfileRequest | EstimateRequest):
        codes = f" candidates {', '.join(one.code for one in request.candidates)} of"
    return f"{kind}{codes} {request.task.name}"
