"""Interfaces of a fleet: an owner (the process that has a device, on this machine or a Ray actor on another),
compilers, and the fleet of both."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from kernelblaster.fleet.requests import OwnedKind, Request
from kernelblaster.records import Candidate, Task


class OwnerLost(Exception):
    """Raised if the process that owned a device has ended, or its device cannot be used any more, for the
    reason `why`. `begun` is True if the process had begun to work on the request; if it is False, the request
    cannot be the cause."""

    def __init__(self, why: str, *, begun: bool = True) -> None:
        super().__init__(why)
        self.begun = begun


class CompiledLost(Exception):
    """Raised if a compiled candidate was lost, because the machine that had it failed before the process that
    owns the device had received it."""


class Owner(Protocol):
    """Interface to a process that owns a device, on this machine or another, and judges candidates on it; it
    works on one call of `ask` at a time. `name` is its machine and device, for people; `kind` is what it
    owns, a GPU or a PTX machine (emulator)."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> OwnedKind: ...

    def ask(self, requests: Sequence[Request], compiled: Any = None) -> "Future[list[Any]]":
        """Sends requests to the device: one, or several for profiles of equal depth, which are made in one
        start of the profiler. `compiled` is the compiled candidate if there is one, in the form in which the
        fleet's compilers return it. The future has the answers in the same order, or raises OwnerLost or
        CompiledLost."""
        ...

    def end(self) -> None:
        """Ends the process that owns the device at once, whatever it works on."""
        ...


class Compilers(Protocol):
    """Interface of what compiles candidates with nvcc: threads of this process, or tasks on several machines.
    At most `slots` candidates are compiled at a time."""

    @property
    def slots(self) -> int: ...

    def compile(self, task: Task, candidate: Candidate, architecture: str) -> "Future[Any]":
        """Screens a candidate for `task` and compiles it for an architecture (like "sm_90a"). The future has
        something to pass to `Owner.ask`: the compiled candidate, a reference to it, or the outcome that says
        why it was not compiled. It raises OwnerLost if the process that compiled was lost."""
        ...

    def close(self) -> None: ...


class Fleet(Protocol):
    """Interface of a fleet: owners of devices (processes that have one each), and compilers for them.
    `demands_health`: a device that is not fit to time on is refused."""

    @property
    def demands_health(self) -> bool: ...

    @property
    def compilers(self) -> Compilers: ...

    def start(self, join: Callable[[Owner], None]) -> None:
        """Starts the processes that own the devices. `join` is called with each owner as soon as it can be
        asked. This may also happen after this call has returned, and in other threads. To be called once, by
        a thread that lives as long as the fleet, because the Linux kernel kills processes of this machine
        when the thread that started them ends."""
        ...

    def replace(self, lost: Owner, why: str, *, fruitful: bool) -> None:
        """Starts another owner (a process that has the device) in place of `lost`, which has ended for the
        reason `why`. `fruitful` says whether `lost` had answered at least one request. Does nothing if the
        device is gone, or if four owners of it in a row were lost without having answered anything. To be
        called by the thread that called `start`."""
        ...

    def refuse(self, owner: Owner, why: str) -> None:
        """Leaves a device unused from now on, because its owner (the process that has it) has said that it is
        not fit to be used; `why` is the reason. To be called by the thread that called `start`."""
        ...

    def note(self, owner: Owner, about: str) -> None:
        """Records what the device of an owner (the process that has it) works on now, for people who ask for
        the fleet's status. `about` says so in words; empty means nothing."""
        ...

    def hopeless(self) -> str | None:
        """Says in words why this fleet has no usable device and will not get one. None as long as it has one,
        or a process that opens one is starting or may still join."""
        ...

    def close(self) -> None:
        """Ends the processes of all devices; requests that they work on are lost."""
        ...
