"""The recorder: runs a candidate's host code in a sandbox without a GPU. CUDA calls in it execute nothing;
they are written down as a launch list (kernels with grids and arguments, copies, allocations, in stream
order), which another process replays on the GPU.

Each recording runs in a fresh process, with system calls restricted to computation, that sees the arguments
of one call and nothing else. Its output is parsed as untrusted data."""

import contextlib
import math
import os
import select
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kernelblaster.devices import window
from kernelblaster.devices.device import (
    Argument,
    CandidateDied,
    CandidateHung,
    GpuFacts,
    Pointer,
    SteppedCall,
)
from kernelblaster.devices.device_code import OBJECT, DeviceCode
from kernelblaster.devices.launch_list import InvalidLaunchList, LaunchList, parse
from kernelblaster.devices.native_build import recorder_executable
from kernelblaster.devices.player_process import ended
from kernelblaster.errors import DeviceLost, NoDevice
from kernelblaster.settings import settings

HOST_MEMORY_BYTES = 4 << 30
START_LIMIT_S = 30.0
ELSEWHERE_OTHERWISE = "launches something else where it is loaded elsewhere"
MARGIN_S = 10.0  # for the recorder itself, beyond what its children may take


@dataclass(frozen=True)
class CallToRecord:
    """One call of a candidate's host code to record. `scratch` is the address where its scratch allocations
    (cudaMallocAsync) begin; with `scratch_at_end`, the first one lies at the end of its mapping and later
    ones alternate between begin and end. `stream` is the handle of the stream that the launch function gets.
    `filling` is the byte that newly allocated host memory is filled with; 0: it is not filled. `before` has
    pairs (how often, arguments): calls that the same process makes first, which are not recorded."""

    arguments: tuple[Argument, ...]
    scratch: int
    scratch_at_end: bool
    stream: int
    filling: int = 0
    before: tuple[tuple[int, tuple[Argument, ...]], ...] = ()

    @property
    def text(self) -> str:
        """This call as one line of text, the form in which the recorder (the executable that runs host code)
        reads it. First come the fields from `scratch` to `filling`, as numbers. Then come the calls of
        `before` and at last this call, each as: how often it is made, the number of its arguments, the
        arguments."""
        words = [str(self.scratch), str(int(self.scratch_at_end)), str(self.stream), str(self.filling)]
        for times, arguments in (*self.before, (1, self.arguments)):
            words += [str(times), str(len(arguments)), *(_word(argument) for argument in arguments)]
        return " ".join(words)


@dataclass
class Recordable:
    """A compiled candidate whose host code is to be run by the recorder, which writes down its CUDA calls.
    `folder` is where it was compiled, `code` its device code. When its host code queries the GPU, it is told
    the properties `gpu`. `addresses` are those of its global variables, by name. `facts` are the answers to
    other questions about the GPU that the host code has asked so far, by question."""

    folder: Path
    code: DeviceCode
    gpu: GpuFacts
    addresses: dict[str, int]
    facts: dict[str, int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """This candidate as lines of text (folder, GPU, kernels, global variables). It is the form in which
        the recorder reads it, the executable that runs a candidate's host code (native/recorder.cpp)."""
        lines = [f"folder {self.folder.resolve()}", f"object {OBJECT}", f"memory {HOST_MEMORY_BYTES}"]
        lines += [f"gpu {self.gpu.memory_bytes} {self.gpu.name}", f"window {window.BEGIN} {window.BYTES}"]
        lines.append(f"elsewhere {window.ELSEWHERE} {window.BYTES}")
        lines += [f"attribute {number} {value}" for number, value in self.gpu.attributes.items()]
        for name, kernel in self.code.kernels.items():
            r = kernel.resources
            known = (r.registers, r.shared_bytes, r.stack_bytes, r.constant_bytes) if r else (32, 0, 0, 0)
            words = [name, *known, kernel.max_threads, *(n for pair in kernel.parameters for n in pair)]
            lines.append("kernel " + " ".join(str(word) for word in words))
        for name, size in self.code.globals.items():
            lines.append(f"global {name} {self.addresses[name]} {size}")
        lines += [f"fact {value} {question}" for question, value in self.facts.items()]
        return "\n".join(lines)


class Recorder:
    """Starts and commands the recorder, a sandboxed process that runs candidates' host code and writes down
    the launches it asks for, without executing them. The process is started when first needed, and again if
    it has ended. Not thread-safe."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._gaps = ""
        self._buffer = b""
        self.seconds: list[float] = []  # CPU time of each process of the last `record`

    def gaps(self) -> str:
        """What this system lacks to confine candidates' host code, in words (like a missing seccomp filter);
        empty if nothing."""
        self._started()
        return self._gaps

    @property
    def remark(self) -> str:
        """A remark to add to the device's name in reports: that host code runs unconfined. Empty unless the
        user allowed that (--unsafe) and this system cannot confine it."""
        return ", host code not confined" if settings().unsafe and self.gaps() else ""

    def record(
        self, candidate: Recordable, calls: Sequence[CallToRecord], limit_s: float, all_s: float = math.inf
    ) -> "list[LaunchList | CandidateDied | CandidateHung]":
        """Runs the candidate's host code once for each of `calls` and writes down its launches, without
        executing them. Each call has a process of its own and at most `limit_s` seconds; all calls together
        have at most `all_s`. Returns for each call its launch list, or the exception that says how its
        process ended. After a failure, the remaining calls may be skipped; they get the same exception.
        Raises NoDevice where host code cannot be confined, DeviceLost if the recorder itself fails."""
        process = self._confining()
        rounds = -(-len(calls) // 2)  # at least two run side by side
        deadline = time.monotonic() + min(limit_s * rounds + MARGIN_S, all_s)
        try:
            _ask(process, candidate, calls, limit_s)
            answers = [self._answer(process, deadline) for _ in calls]
        except (OSError, ValueError) as error:
            ended = process.poll() is not None
            self.close()
            if not ended and all_s < limit_s * rounds + MARGIN_S:
                return [CandidateHung(all_s)] * len(calls)
            raise DeviceLost(f"the recorder ended: {error}") from error
        self.seconds = [seconds for _, _, seconds in answers]
        done = [_result(status, text, limit_s) for status, text, _ in answers if status != "skipped"]
        worst = next((one for one in done if not isinstance(one, LaunchList)), None)
        results, skipped = iter(done), worst or CandidateDied("skipped")
        return [skipped if status == "skipped" else next(results) for status, _, _ in answers]

    def step(
        self,
        candidate: Recordable,
        call: CallToRecord,
        moved: CallToRecord,
        away: int,
        seed: int,
        limit_s: float,
    ) -> SteppedCall:
        """Executes one call of the candidate's host code instruction by instruction, in two processes that
        are loaded at different addresses (native/stepping.h). Returns what was seen: which use of an address
        is not allowed, if any was found, and how many instructions were executed. One process makes `call`,
        the other `moved`: the same call with all tensors `away` bytes further on. What the two launch must be
        the same. `seed` (64 bits) draws where the stack and the heap begin in their pages. If the call takes
        more than `limit_s` seconds, the result has a finding that says so. Raises NoDevice and DeviceLost as
        `record` does."""
        done = self._stepped(candidate, (call, moved), f" step {away} {seed} 0", limit_s)
        if done.finding != ELSEWHERE_OTHERWISE:
            return done
        # What functions leave on the stack ends up in the padding of structures: once more without that.
        return self._stepped(candidate, (call, moved), f" step {away} {seed} 1", limit_s)

    def _stepped(
        self, candidate: Recordable, calls: tuple[CallToRecord, CallToRecord], how: str, limit_s: float
    ) -> SteppedCall:
        """Has the recorder's process step two calls, as `how`, the end of its command line, says."""
        process = self._confining()
        try:
            _ask(process, candidate, calls, limit_s, how)
            _, text, _ = self._answer(process, time.monotonic() + limit_s + MARGIN_S)
        except (OSError, ValueError) as error:
            self.close()
            raise DeviceLost(f"the recorder ended: {error}") from error
        kind, _, rest = text.decode("ascii", "replace").partition(" ")
        if kind == "steps":
            return _followed(rest, *calls)
        if kind == "finding":
            offset, _, what = rest.partition(" ")
            where = f"at 0x{int(offset):x} of {OBJECT}"
            return SteppedCall(finding=f"{what} {where}" if what.endswith(":") else f"{what}, {where}")
        return SteppedCall(missing=rest)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                with contextlib.suppress(OSError):
                    if stream:
                        stream.close()
            self._process = None
        self._buffer = b""

    def _confining(self) -> "subprocess.Popen[bytes]":
        """The recorder's process, started first if there is none. Raises NoDevice where it cannot confine
        host code, unless the user allowed that (--unsafe)."""
        process = self._started()
        if self._gaps and not settings().unsafe:
            raise NoDevice(
                f"candidates cannot be confined on this system: {self._gaps}. Their host code is not run; "
                "where you trust it, `kernelblaster --unsafe COMMAND` runs it as your own."
            )
        return process

    def _started(self) -> "subprocess.Popen[bytes]":
        """The recorder's process (which runs candidates' host code in a sandbox), started first if there is
        none. Raises DeviceLost if it does not start."""
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        self._process = subprocess.Popen(
            [str(recorder_executable()), *(["unsafe"] if settings().unsafe else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
            bufsize=-1,
            start_new_session=True,
        )
        try:
            first = self._line(self._process, time.monotonic() + START_LIMIT_S)
        except ValueError as error:
            self.close()
            raise DeviceLost(f"the recorder did not start: {error}") from error
        self._gaps = first.removeprefix("ready").strip()
        return self._process

    def _answer(self, process: "subprocess.Popen[bytes]", deadline: float) -> tuple[str, bytes, float]:
        """The recorder's next answer: (status, output, CPU seconds). The status is "late" (out of time),
        "skipped" or the number that waitpid gives. Raises ValueError after `deadline`."""
        status, size, seconds = self._line(process, deadline).split(" ")
        while len(self._buffer) < int(size):
            self._more(process, deadline)
        text, self._buffer = self._buffer[: int(size)], self._buffer[int(size) :]
        return status, text, float(seconds)

    def _line(self, process: "subprocess.Popen[bytes]", deadline: float) -> str:
        """The next line of the recorder's output. Raises ValueError after `deadline` (time.monotonic)."""
        while b"\n" not in self._buffer:
            self._more(process, deadline)
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()

    def _more(self, process: "subprocess.Popen[bytes]", deadline: float) -> None:
        """Read some more of the recorder's output into the buffer. Raises ValueError if none comes before
        `deadline` (time.monotonic), or the process ended."""
        assert process.stdout
        left = max(0.0, deadline - time.monotonic())
        if not select.select([process.stdout], [], [], left)[0]:
            raise ValueError("no answer in time")
        piece = os.read(process.stdout.fileno(), 1 << 20)
        if not piece:
            raise ValueError("it ended")
        self._buffer += piece


def moved_ranges(here: Sequence[Argument], there: Sequence[Argument]) -> list[tuple[int, int, int]]:
    """(begin, end, new begin) of each tensor, to translate the addresses of a call with the arguments `here`
    to those of a call with the arguments `there`."""
    return [
        (a.address, a.address + a.bytes, b.address)
        for a, b in zip(here, there, strict=True)
        if isinstance(a, Pointer) and isinstance(b, Pointer)
    ]


def _followed(answer: str, call: CallToRecord, moved: CallToRecord) -> SteppedCall:
    """Compares the two processes in which a call was executed instruction by instruction, at different
    addresses (`call` and `moved`), and returns what was seen. `answer` has the number of instructions, the
    size of the first process's launch list, and both lists. It is a finding if a list cannot be read, or if
    the lists differ in more than addresses."""
    instructions, size, lists = answer.split("\n", 2)
    done = SteppedCall(instructions=int(instructions))
    try:
        mine, other = (parse(text) for text in (lists[: int(size)], lists[int(size) :]))
    except InvalidLaunchList as error:
        return replace(done, finding=f"hands over no launches when it is followed: {error}")
    scratch = (call.scratch, call.scratch + window.SCRATCH_BYTES, moved.scratch)
    if mine.moved([*moved_ranges(call.arguments, moved.arguments), scratch]).does_as(other):
        return done
    return replace(done, finding=ELSEWHERE_OTHERWISE)


def _ask(
    process: "subprocess.Popen[bytes]",
    candidate: Recordable,
    calls: Sequence[CallToRecord],
    limit_s: float,
    further: str = "",
) -> None:
    """Send the recorder's process a request: these calls of the candidate, each with `limit_s` seconds;
    `further` words of its first line say what to do with them (native/recorder.cpp)."""
    data = ("\n".join([candidate.text, "jobs", *(call.text for call in calls)]) + "\n").encode()
    assert process.stdin is not None
    process.stdin.write(f"{len(data)} {limit_s:.3f} {len(calls)}{further}\n".encode() + data)
    process.stdin.flush()


def _result(status: str, text: bytes, limit_s: float) -> "LaunchList | CandidateDied | CandidateHung":
    """The result of one recording: the launch list in its output `text`, or the exception that says how its
    process ended (CandidateHung if `status` is "late")."""
    if status == "late":
        return CandidateHung(limit_s)
    code = os.waitstatus_to_exitcode(int(status))
    if code != 0:
        why = "; host code cannot read or write device memory" if code == -11 else ""
        return CandidateDied(f"the host code's process {ended(code)}{why}")
    try:
        return parse(text.decode("ascii", "replace"))
    except InvalidLaunchList as error:
        if not text:
            return CandidateDied("the host code ended its process")
        return CandidateDied(f"what was recorded of the host code cannot be read: {error}")


def _word(argument: Argument) -> str:
    """An argument of a call in the form that the recorder reads: a letter for its type (i: integer or
    address, b: bool, d: float) and its value."""
    if isinstance(argument, Pointer):
        return f"i{argument.address}"
    if isinstance(argument, bool):
        return f"b{int(argument)}"
    if isinstance(argument, int):
        return f"i{argument}"
    return f"d{argument!r}"
