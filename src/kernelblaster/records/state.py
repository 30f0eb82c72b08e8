"""Performance states of kernels and the optimizations that may help in them, the entries of the knowledge
base."""

from typing import Literal

from pydantic import Field

from kernelblaster.records.record import Record

Bottleneck = Literal[
    "memory-bandwidth",
    "uncoalesced-access",
    "l2-bandwidth",
    "bank-conflicts",
    "latency",
    "register-pressure",
    "fp32-pipe",
    "tensor-pipe",
    "instruction-issue",
    "divergence",
    "barriers",
    "atomics",
    "launch-overhead",
    "tail-effect",
    "redundant-work",
]


HEADROOM = "headroom"
"""Among a state's metrics: the share of its time that a kernel could save. What it could become is no part of
what it is like, so it does not count when states are compared."""


class State(Record):
    """A performance state, the key of the knowledge base: the `primary` bottleneck of a kernel and further
    tags (`secondary`). `metrics` are the profiler's numbers that it was recognized by."""

    name: str
    primary: Bottleneck
    secondary: tuple[str, ...] = ()
    description: str = ""
    metrics: dict[str, float] = Field(default_factory=dict)


class KernelState(Record):
    """The state of one kernel of a call (its name in the source), and its share of the call's time, from 0 to
    1."""

    kernel: str
    share: float
    state: State


class Optimization(Record):
    """A technique that may help in a state: its identifier, a title, what to do (`description`) and
    conditions on the kernel in words (`preconditions`). `predicted` is the expected speedup factor of the
    whole call."""

    technique: str
    title: str
    description: str
    preconditions: tuple[str, ...] = ()
    predicted: float
