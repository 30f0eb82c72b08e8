"""Owners and compilers on Ray: an actor owns a device, a task compiles a candidate.

With ray_fleet.py, which finds the nodes, and ray_session.py, which connects to them, this is all that
imports Ray.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import ray
from ray import exceptions
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import kernelblaster
from kernelblaster.errors import DeviceLost, KernelBlasterError, NoDevice
from kernelblaster.fleet.compile_task import compile_packed
from kernelblaster.fleet.device_owner import Compiled, DeviceOwner
from kernelblaster.fleet.owner import CompiledLost, OwnerLost
from kernelblaster.fleet.requests import OwnedKind, Request
from kernelblaster.records import Candidate, Task
from kernelblaster.settings import VISIBLE_GPUS, hide_gpus

NO_GPUS = {"env_vars": {VISIBLE_GPUS: ""}}
LETTERS = 300  # of an error of Ray's


class DeviceActor:
    """The Ray actor that owns a device: a `DeviceOwner` in a process on the device's machine. `kind` is
    "cuda" or "emulated". `version` is the version of KernelBlaster in the process that asks; if it differs
    from this one's, every answer is a NoDevice error."""

    def __init__(self, kind: OwnedKind, version: str) -> None:
        if kind == "emulated":
            hide_gpus()
        self._owner = DeviceOwner()
        self._other = kernelblaster.__version__ if kernelblaster.__version__ != version else None

    def answer(self, requests: Sequence[Request], compiled: Compiled | None) -> list[Any]:
        """Returns the answers to `requests` in the same order: to one request, or to several for profiles of
        equal depth. For a request that cannot be answered, the answer is the KernelBlasterError to raise.
        `compiled` is the compiled candidate that a request came with, None if there is none. If both sides
        have different versions of KernelBlaster, the answer is a NoDevice error that says so."""
        if self._other is not None:
            return [NoDevice(f"that node has KernelBlaster {self._other}; install the same version there.")]
        return self._owner.answer(requests, compiled)

    def pid(self) -> int:
        """The id that the actor's process has on its machine, by which it can be found there."""
        return os.getpid()


class ActorOwner:
    """An `Owner` of a device of this `kind` as a Ray actor on the machine with the id `node`. `takes` are the
    Ray resources that the actor occupies there, such as a GPU; `name` and `namespace` are the actor's in Ray.
    The constructor does not wait until the actor runs, since the device may still be in use by others."""

    def __init__(self, kind: OwnedKind, name: str, node: str, takes: dict[str, Any], namespace: str) -> None:
        self.kind = kind
        self.name = name
        self.node = node
        made = ray.remote(DeviceActor).options(  # type: ignore[attr-defined]
            name=name,
            namespace=namespace,
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
            runtime_env=None if kind == "cuda" else NO_GPUS,
            **takes,
        )
        self._actor = made.remote(kind, kernelblaster.__version__)

    def ask(self, requests: Sequence[Request], compiled: Any = None) -> "Future[list[Any]]":
        begun = (
            self._actor.pid.remote()
        )  # an actor does one call after the other: answered, it is at the next
        reference = self._actor.answer.remote(list(requests), compiled)
        return _explained(reference.future(), self.name, begun.future())

    @property
    def pid(self) -> int:
        """The id of the actor's process on its machine; waits until the actor is idle."""
        return int(ray.get(self._actor.pid.remote()))

    def end(self) -> None:
        ray.kill(self._actor, no_restart=True)


class TaskCompilers:
    """`Compilers` that are Ray tasks: each compiles one candidate, with one core of any machine of the
    cluster. `compile` gives a reference to the compiled candidate, whose files go directly from that machine
    to the one with the device. `slots` is the number of tasks at a time; the fleet sets it as machines come
    and go."""

    def __init__(self) -> None:
        self.slots = 1
        self._task = ray.remote(compile_packed).options(  # type: ignore[attr-defined]
            num_cpus=1, num_returns=2, max_retries=0, scheduling_strategy="SPREAD", runtime_env=NO_GPUS
        )

    def compile(self, task: Task, candidate: Candidate, architecture: str) -> "Future[Any]":
        failure, compiled = self._task.remote(task, candidate, architecture)
        named = _explained(failure.future(), f"compiling {candidate.code}")
        return _mapped(named, lambda outcome: compiled if outcome is None else outcome)

    def close(self) -> None:
        pass


def _mapped(future: "Future[Any]", change: Callable[[Any], Any]) -> "Future[Any]":
    """A future with `change` applied to the result of another one; with the same exception if that one has
    one."""
    changed: Future[Any] = Future()

    def pass_on(done: "Future[Any]") -> None:
        error = done.exception()
        if error is not None:
            changed.set_exception(error)
        else:
            changed.set_result(change(done.result()))

    future.add_done_callback(pass_on)
    return changed


def _explained(future: "Future[Any]", name: str, begun: "Future[Any] | None" = None) -> "Future[Any]":
    """Returns a future with the same result as `future`, in which errors of Ray are replaced by errors that a
    dispatcher (which hands requests to devices) understands. `name` is for the message. `begun` is a future
    that has a result once the process has begun to work on the request; None: it counts as begun."""
    explained: Future[Any] = Future()

    def pass_on(done: "Future[Any]") -> None:
        error = done.exception()
        if error is None:
            explained.set_result(done.result())
        elif begun is None:
            explained.set_exception(_explanation(error, name, begun=True))
        else:
            begun.add_done_callback(
                lambda one: explained.set_exception(_explanation(error, name, begun=one.exception() is None))
            )

    future.add_done_callback(pass_on)
    return explained


def _explanation(error: BaseException, name: str, *, begun: bool) -> Exception:
    """The error that a dispatcher (which hands requests to devices) gets in place of one of Ray: OwnerLost if
    the process or device was lost, CompiledLost if a compiled candidate was; a KernelBlasterError as it is.
    `name` says of what, for the message; `begun`, whether the process had begun to work."""
    cause = getattr(error, "cause", None) or error
    if isinstance(cause, DeviceLost):
        return OwnerLost(f"{name}: {cause}", begun=begun)
    if isinstance(cause, KernelBlasterError):
        return cause
    if isinstance(cause, exceptions.ObjectLostError):
        return CompiledLost(f"{name}: what was compiled is lost")
    words = " ".join(str(cause).split())[:LETTERS]
    if isinstance(cause, exceptions.RayError):
        return OwnerLost(f"{name}: {type(cause).__name__}: {words}", begun=begun)
    return OwnerLost(f"{name}: internal error: {cause!r}"[:LETTERS], begun=begun)
