"""Where a policy works: what it may look at, and where its questions and answers are recorded."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from kernelblaster.devices.specs import GpuSpec
from kernelblaster.knowledge.content import Content
from kernelblaster.records import Candidate, Evaluation, Optimization, State, Step


class Surroundings(Protocol):
    """The search's own session, as far as a policy needs it."""

    @property
    def spec(self) -> GpuSpec: ...

    @property
    def modelled(self) -> bool:
        """Whether the device only emulates: then times are modelled, and few instructions are known."""
        ...

    @property
    def evaluations(self) -> Mapping[str, Evaluation]:
        """What was judged so far, by the `code` of candidates."""
        ...

    @property
    def tried(self) -> Sequence[Step]:
        """The steps of this run so far."""
        ...

    def now(self) -> Content:
        """The knowledge base as it is."""
        ...

    def once(self, kind: str, key: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What was computed the first time, in this process or in one before it."""
        ...

    def first(self, candidate: Candidate) -> Evaluation:
        """Judge a candidate that the search may start from."""
        ...

    def offer(self, state: State, optimizations: Sequence[Optimization]) -> str:
        """Tell the knowledge base of techniques that may help in a state, with what they promise. Known
        ones stay as they are. Returns the name under which the state is known."""
        ...
