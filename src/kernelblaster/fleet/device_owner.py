"""Answers requests on one device: what runs in the process that owns the device, on this machine or on
another."""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import Any

from kernelblaster.devices.device import Device
from kernelblaster.errors import DeviceLost, KernelBlasterError, NoDevice
from kernelblaster.fleet.compiled_object import CompiledObject, unpack
from kernelblaster.fleet.health import look_at
from kernelblaster.fleet.requests import (
    ConfirmRequest,
    DescribeRequest,
    DeviceFacts,
    EstimateRequest,
    EvaluateRequest,
    JudgeChoice,
    OwnedKind,
    PrepareRequest,
    ProfileRequest,
    Request,
)
from kernelblaster.judge.baseline import COMPILED, forget_compiled
from kernelblaster.judge.compile import Binary
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.judge.options import EvaluationOptions
from kernelblaster.opening import open_device
from kernelblaster.records import Outcome, Task

PREPARED = 6  # tasks whose references are kept at once, on the device

Compiled = Binary | CompiledObject | Outcome
"""A compiled candidate: on this machine, as a value from another one, or why it was not compiled."""


class DeviceOwner:
    """Owns the GPU of this process, or a PTX machine (an emulator on the CPU), and answers requests one at a
    time. Judges are opened when they are first needed, and stay open. What they prepare for a task, such as
    its reference module, is kept for the next request, for at most six tasks (PREPARED), of which at most one
    is timed against torch.compile. When a request for a further task would exceed these limits, everything
    kept for the earlier tasks is freed first."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._devices: dict[tuple[str, str | None], Device] = {}
        self._judges: dict[JudgeChoice, DeviceJudge] = {}
        self._tasks: set[tuple[JudgeChoice, str]] = set()

    def answer(self, requests: Sequence[Request], compiled: Compiled | None = None) -> list[Any]:
        """The answers to `requests`, in their order. Usually it is one request, which may come with its
        `compiled` candidate; several are requests for profiles of equal depth, which are made in one start of
        the profiler. `compiled` is None if the request needs none. For a request that cannot be answered, the
        answer is the KernelBlasterError to raise. Raises DeviceLost (or a CUDA error) if the device cannot be
        used any more."""
        first = requests[0]
        try:
            if isinstance(first, ProfileRequest):
                wanted = [(r.task, r.candidates) for r in requests if isinstance(r, ProfileRequest)]
                return list(self._judge(first.choice, *wanted).profile_many(wanted, depth=first.depth))
            return [self._answer(first, compiled)]
        except DeviceLost:
            raise
        except KernelBlasterError as error:
            return [error] * len(requests)
        except Exception as error:
            if "CUDA error" in str(error):
                raise DeviceLost(f"the GPU failed: {str(error).splitlines()[0]}.") from error
            return [KernelBlasterError(f"internal error: {error!r}")] * len(requests)

    def close(self) -> None:
        """Closes all judges and devices that this process has opened."""
        self._open.close()

    def _answer(self, request: Request, compiled: Compiled | None) -> Any:
        """The answer to a request other than for a profile, of the type that requests.py gives for it.
        `compiled` is the compiled candidate, if the request is about one."""
        match request:
            case DescribeRequest():
                if request.healthy and not self._devices:
                    _check_health(request.choice.kind)
                device = self._device(request.choice)
                return DeviceFacts(device.name, device.spec, device.modelled)
            case PrepareRequest():
                return self._judge(request.choice, (request.task, ())).prepare(request.task)
            case EvaluateRequest():
                assert compiled is not None
                binary = unpack(compiled) if isinstance(compiled, CompiledObject) else compiled
                judge = self._judge(request.choice, (request.task, ()))
                return judge.finish(request.task, request.candidate, binary)
            case ConfirmRequest():
                judge = self._judge(request.choice, (request.task, ()))
                return judge.confirmed(request.task, request.candidate, request.evaluation)
            case EstimateRequest():
                judge = self._judge(request.choice, (request.task, ()))
                return judge.estimate(request.task, request.candidates)
            case _:
                raise AssertionError(request)

    def _device(self, choice: JudgeChoice) -> Device:
        """The open device that a request asks for: the GPU, or the emulator that stands for some GPU. Opened
        when first needed."""
        key = (choice.kind, choice.gpu if choice.kind == "emulated" else None)
        if key not in self._devices:
            self._devices[key] = self._open.enter_context(closing(open_device(*key)))  # type: ignore[arg-type]
        return self._devices[key]

    def _judge(self, choice: JudgeChoice, *wanted: tuple[Task, object]) -> DeviceJudge:
        """The judge for a choice of device and baseline, opened when first needed. `wanted` are the tasks
        that it is needed for now. To bound memory, all kept reference modules are dropped first if there
        would otherwise be more than PREPARED of them (more than one with a compiled baseline)."""
        if choice not in self._judges:
            device = self._device(choice)
            profile = choice.searching and device.modelled
            options = EvaluationOptions(
                baseline=choice.baseline, profile=profile, sanitize=choice.sanitize, filter=choice.filter
            )
            judge = DeviceJudge(device, options)
            self._judges[choice] = self._open.enter_context(closing(judge))
        needed = {(choice, task.digest) for task, _ in wanted}
        kept = self._tasks | needed
        compiled = {task for one, task in kept if one.baseline in COMPILED}
        if len(kept) > PREPARED or len(compiled) > 1:
            kept = needed
            for judge in self._judges.values():
                judge.close()
            if compiled:
                forget_compiled()
        self._tasks = kept
        return self._judges[choice]


def _check_health(kind: OwnedKind) -> None:
    """Raises NoDevice if the device of this process, of this `kind`, is not fit to time on: slowed down, too
    hot, or used by others."""
    health = look_at(kind)
    if health.problems:
        raise NoDevice(f"unhealthy: {health}")
