"""The queue of requests in front of one device's owner (the process that has the device): which it gets
next."""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from kernelblaster.fleet.owner import Owner
from kernelblaster.fleet.requests import (
    DeviceFacts,
    EvaluateRequest,
    JudgeChoice,
    ProfileRequest,
    Request,
    task_digest,
)

PATIENCE_S = 6.0  # that a profile waits for others to share the profiler's start with
AHEAD = 16  # candidates that are compiled, or being compiled, before the device comes to them


@dataclass(eq=False)
class Pending:
    """A request of a client that waits for its answer. `work` identifies what is to be done (`work_of` in
    requests.py); `compiled` is its compiled candidate, if it needs one. `alone`: it is not to be combined
    with others, because a process was lost with it before. `since` is when it was made (a
    `time.monotonic`)."""

    request: Request
    client: Hashable
    work: str
    answer: "Future[Any]" = field(default_factory=Future)
    compiled: Any = None
    alone: bool = False
    since: float = field(default_factory=time.monotonic)

    @property
    def search(self) -> tuple[Hashable, str]:
        """The search that it belongs to: its client, and the task that the client is at."""
        return self.client, task_digest(self.request)


class Desk:
    """The owner of a device (the process that has it) with its queue. Requests are `waiting` to be compiled,
    `compiling`, `ready`, or `at_work`. `clients` are the searches whose present task is judged here;
    `answered` counts requests. `began` is when the ones at work were begun (a `time.monotonic`). `used` are
    the seconds that each search (`Pending.search`) has had of the device."""

    def __init__(self, owner: Owner, facts: DeviceFacts) -> None:
        self.owner = owner
        self.facts = facts
        self.waiting: deque[Pending] = deque()
        self.compiling: set[Pending] = set()
        self.ready: list[Pending] = []
        self.at_work: list[Pending] = []
        self.clients: set[Hashable] = set()
        self.answered = 0
        self.began = 0.0
        self.used: defaultdict[tuple[Hashable, str], float] = defaultdict(float)

    @property
    def load(self) -> int:
        """How many requests are here and not answered yet."""
        return len(self.waiting) + len(self.compiling) + len(self.ready) + len(self.at_work)

    def serves(self, choice: JudgeChoice) -> bool:
        """Whether this device is what a request asks for: of the same kind and, if it is a GPU and one is
        named, of that model."""
        if self.owner.kind != choice.kind:
            return False
        return choice.kind == "emulated" or choice.gpu in (None, self.facts.spec.name)

    def add(self, pending: Pending) -> None:
        """Queue a request: to be compiled first if it asks for an evaluation and its candidate is not
        compiled, else as ready."""
        if isinstance(pending.request, EvaluateRequest) and pending.compiled is None:
            self.waiting.append(pending)
        else:
            self.ready.append(pending)

    def next_to_compile(self) -> Pending | None:
        """Take the request whose candidate is compiled next: the oldest one of the client with the fewest
        candidates compiled ahead here. None if none waits, or AHEAD are compiled already."""
        ahead = [*self.compiling, *(one for one in self.ready if one.compiled is not None)]
        if not self.waiting or len(ahead) >= AHEAD:
            return None
        counted = Counter(one.client for one in ahead)
        chosen = min(self.waiting, key=lambda one: counted[one.client])
        self.waiting.remove(chosen)
        self.compiling.add(chosen)
        return chosen

    def next_to_answer(self) -> list[Pending]:
        """Take the requests that the owner of the device gets next; empty if none is ready. Usually one: the
        oldest of the search that has had least of the device, so that a slow task does not keep others
        waiting. Profiles of equal depth go together, since starting a profiler takes longer than most of
        them: once half of the clients wait for one, one has waited for PATIENCE_S, or nothing else is
        ready."""
        profiles = [one for one in self.ready if isinstance(one.request, ProfileRequest)]
        others = [one for one in self.ready if one not in profiles]
        chosen = [min(others, key=lambda one: self.used[one.search])] if others else []
        late = any(time.monotonic() - one.since > PATIENCE_S for one in profiles)
        if profiles and (not others or late or 2 * len(profiles) >= len(self.clients)):
            chosen = [one for one in profiles if _together(one, profiles[0])]
        self.ready = [one for one in self.ready if one not in chosen]
        self.at_work = chosen
        return chosen

    def forget(self, client: Hashable) -> None:
        """Forget a client that has left, and what its searches had of the device."""
        self.clients.discard(client)
        for search in [search for search in self.used if search[0] == client]:
            del self.used[search]

    def charge(self) -> None:
        """Charge the time since `began` to the searches whose requests are at work."""
        seconds = (time.monotonic() - self.began) / max(1, len(self.at_work))
        for one in self.at_work:
            self.used[one.search] += seconds

    def spare_evaluation(self) -> Pending | None:
        """Take an evaluation that another PTX machine (emulator) may do as well, since its times are
        modelled: the last one, if more than one waits here behind the one at work. None if there is none, or
        this device is a GPU."""
        if self.owner.kind != "emulated" or len(self.waiting) + len(self.ready) < 2:
            return None
        for queue in (self.waiting, self.ready):
            for one in reversed(queue):
                if isinstance(one.request, EvaluateRequest) and not one.alone:
                    queue.remove(one)
                    return one
        return None

    def drain(self) -> list[Pending]:
        """Take all requests that are not at work or being compiled."""
        left = [*self.ready, *self.waiting]
        self.ready, self.waiting = [], deque()
        return left


def _together(one: Pending, first: Pending) -> bool:
    """Whether the profile that `one` asks for can be made under the same start of the profiler as `first`."""
    if one is first:
        return True
    assert isinstance(one.request, ProfileRequest) and isinstance(first.request, ProfileRequest)
    same = (one.request.choice, one.request.depth) == (first.request.choice, first.request.depth)
    return same and not one.alone and not first.alone
