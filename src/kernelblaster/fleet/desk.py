"""The queue of requests in front of one device, and the order in which the process that owns the device gets
them."""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Hashable, Mapping
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
    """A request that waits for its answer. `client` identifies who sent it. A client searches one task after
    another; `search` is (client, hash of the task). `work` is a hash of what is to be done, equal for
    requests that run the same code on the same kind of device. `compiled` is the compiled candidate; None if
    it is not compiled yet, or if the request needs none. `since` is when the request was made (a
    `time.monotonic`, in seconds). `alone`: it is sent to a device without other requests, because a device's
    process was lost with it, or a batch that it was in failed."""

    request: Request
    client: Hashable
    work: str
    answer: "Future[Any]" = field(default_factory=Future)
    compiled: Any = None
    alone: bool = False
    since: float = field(default_factory=time.monotonic)
    search: tuple[Hashable, str] = field(init=False)

    def __post_init__(self) -> None:
        self.search = self.client, task_digest(self.request)  # hashed once: it takes longer than all else


class Waiting:
    """Requests whose candidates wait to be compiled, in a queue for each client. Taking one therefore takes
    equally long however many there are."""

    def __init__(self) -> None:
        self._of: dict[Hashable, deque[Pending]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, pending: Pending) -> None:
        self._of.setdefault(pending.client, deque()).append(pending)
        self._count += 1

    def take_next(self, ahead: Mapping[Hashable, int]) -> Pending:
        """Takes the next request to compile out of the queues: the oldest one of the client for which the
        fewest candidates are compiled or compiling. `ahead` has this number for each client (0 for a client
        that is not a key of it). If several clients have the same smallest number, the oldest of their
        requests is taken."""
        client = min(self._of, key=lambda one: (ahead.get(one, 0), self._of[one][0].since))
        return self._taken(client, self._of[client].popleft())

    def take_newest(self) -> Pending | None:
        """Takes a request out of the queues, so that another device can answer it. Only the last request in
        each client's queue is considered, and the newest of these is taken. Requests marked `alone`, with
        which a process was lost before, are not taken; None if there is no other."""
        newest = [line[-1] for line in self._of.values() if not line[-1].alone]
        if not newest:
            return None
        chosen = max(newest, key=lambda one: one.since)
        return self._taken(chosen.client, self._of[chosen.client].pop())

    def drain(self) -> list[Pending]:
        """Takes all requests out of the queues and returns them, the oldest ones first."""
        left = sorted((one for line in self._of.values() for one in line), key=lambda one: one.since)
        self._of, self._count = {}, 0
        return left

    def _taken(self, client: Hashable, pending: Pending) -> Pending:
        self._count -= 1
        if not self._of[client]:
            del self._of[client]
        return pending


class Desk:
    """The queue of one device, in front of `owner`, the process that has the device. `facts` describe the
    device (name, GPU). A request moves through four places: `waiting` to be compiled, `compiling`, `ready`
    for the device, and `at_work` on it. `began` is when the device began with what is at work (a
    `time.monotonic`, in seconds). `clients` are those who send requests (`Pending.client`) and whose present
    task is judged on this device. `answered` is the number of requests answered. `used` has the seconds of
    device time that each search (`Pending.search`) has used."""

    def __init__(self, owner: Owner, facts: DeviceFacts) -> None:
        self.owner = owner
        self.facts = facts
        self.waiting = Waiting()
        self.compiling: set[Pending] = set()
        self.ready: list[Pending] = []
        self.at_work: list[Pending] = []
        self.clients: set[Hashable] = set()
        self.answered = 0
        self.began = 0.0
        self.used: defaultdict[tuple[Hashable, str], float] = defaultdict(float)

    @property
    def load(self) -> int:
        """How many requests are in this queue or at work on this device."""
        return len(self.waiting) + len(self.compiling) + len(self.ready) + len(self.at_work)

    def serves(self, choice: JudgeChoice) -> bool:
        """True if this device is one that `choice` asks for: of the same kind and, if it is a GPU and
        `choice` names a model of GPU, of that model."""
        if self.owner.kind != choice.kind:
            return False
        return choice.kind == "emulated" or choice.gpu in (None, self.facts.spec.name)

    def add(self, pending: Pending) -> None:
        """Puts the request `pending` into the queue: with those waiting to be compiled if it asks for an
        evaluation and its candidate is not compiled yet, else with those ready for the device."""
        if isinstance(pending.request, EvaluateRequest) and pending.compiled is None:
            self.waiting.add(pending)
        else:
            self.ready.append(pending)

    def next_to_compile(self) -> Pending | None:
        """Takes the next request to compile out of those waiting: the oldest one of the client that has the
        fewest candidates compiled or compiling for this device. So no client holds up the others. None if
        none waits, or if 16 candidates (AHEAD) are compiled or compiling already."""
        ahead = [*self.compiling, *(one for one in self.ready if one.compiled is not None)]
        if not self.waiting or len(ahead) >= AHEAD:
            return None
        chosen = self.waiting.take_next(Counter(one.client for one in ahead))
        self.compiling.add(chosen)
        return chosen

    def next_to_answer(self) -> list[Pending]:
        """Takes the requests that the device gets next out of those that are ready; empty if none is. Usually
        this is one request: the oldest of the search that has used the least device time, so that a slow task
        does not keep others waiting.

        Requests for profiles of the same depth are sent together, because starting a profiler takes longer
        than making most profiles. They are sent as soon as half of the clients wait for a profile, one of
        them has waited for six seconds (PATIENCE_S), or nothing else is ready.
        """
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
        """Forget a client that has left, with the device time that its searches have used."""
        self.clients.discard(client)
        for search in [search for search in self.used if search[0] == client]:
            del self.used[search]

    def charge(self) -> None:
        """Charges the requests at work on the device: the seconds since the device began with them are added,
        in equal shares, to the device time of the searches that sent them."""
        seconds = (time.monotonic() - self.began) / max(1, len(self.at_work))
        for one in self.at_work:
            self.used[one.search] += seconds

    @property
    def could_take_over(self) -> bool:
        """True if this is an emulated device for which no request waits. It could then do an evaluation that
        waits for another emulated device."""
        return self.owner.kind == "emulated" and not (self.ready or self.waiting or self.compiling)

    @property
    def could_spare(self) -> bool:
        """True if this is an emulated device for which at least two requests wait, so that another emulated
        device could take over one of them."""
        return self.owner.kind == "emulated" and len(self.waiting) + len(self.ready) >= 2

    def spare_evaluation(self) -> Pending | None:
        """Takes an evaluation out of this queue, so that another emulated device can make it; times are
        modelled, so the result is the same there. It is the newest evaluation, except those marked `alone`,
        with which a process was lost before. None if there is none, if this device is a GPU, or if fewer than
        two requests wait."""
        if not self.could_spare:
            return None
        newest = self.waiting.take_newest()
        if newest is not None:
            return newest
        for one in reversed(self.ready):
            if isinstance(one.request, EvaluateRequest) and not one.alone:
                self.ready.remove(one)
                return one
        return None

    def drain(self) -> list[Pending]:
        """Takes all requests out of the queue, except those at work or being compiled, and returns them."""
        left = [*self.ready, *self.waiting.drain()]
        self.ready = []
        return left


def _together(one: Pending, first: Pending) -> bool:
    """True if the profile that the request `one` asks for can be made in the same start of the profiler as
    that of `first`."""
    if one is first:
        return True
    assert isinstance(one.request, ProfileRequest) and isinstance(first.request, ProfileRequest)
    same = (one.request.choice, one.request.depth) == (first.request.choice, first.request.depth)
    return same and not one.alone and not first.alone
