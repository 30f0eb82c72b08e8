"""Performance states (what bounds a kernel), and optimizations (techniques that may help a kernel in a
state). The knowledge base is made of these."""

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
    """A performance state, called `name`: what bounds a kernel, with a `description` in words. The knowledge
    base is organized by states. `primary` is the main bottleneck, `secondary` are further tags. `metrics` are
    numbers from the kernel's profile by name, on which the choice of the state is based."""

    name: str
    primary: Bottleneck
    secondary: tuple[str, ...] = ()
    description: str = ""
    metrics: dict[str, float] = Field(default_factory=dict)


class KernelState(Record):
    """The performance state of one kernel of a call (its name in the source), and its share of the call's
    time, from 0 to 1."""

    kernel: str
    share: float
    state: State


class Optimization(Record):
    """A technique that may help in a performance state. `technique` is its identifier, `title` its name for
    people, `description` says what to do, `preconditions` are conditions on the kernel in words. `predicted`
    is the speedup that is expected of the whole call as a factor: 1.2 means 1.2 times as fast."""

    technique: str
    title: str
    description: str
    preconditions: tuple[str, ...] = ()
    predicted: float
