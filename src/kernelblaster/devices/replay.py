"""Runs a candidate on a device. A recorder runs its host code and records the launches that this makes. A
player, which is a process that holds only the device code, replays them."""

import random
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

from kernelblaster.devices import window
from kernelblaster.devices.device import (
    Arena,
    Argument,
    BatchReport,
    CallReport,
    CandidateDied,
    CandidateHung,
    GpuFacts,
    LaunchedWork,
    Nondeterministic,
    Pointer,
    SteppedCall,
    TimeReport,
)
from kernelblaster.devices.device_code import device_code
from kernelblaster.devices.launch_list import LaunchList
from kernelblaster.devices.player_process import PlayerProcess
from kernelblaster.devices.recorder import CallToRecord, Recordable, Recorder, moved_ranges

MOST_QUESTIONS = 16
RECORD_LIMIT_S = 5.0  # for host code that does nothing but plan launches
RECORDINGS_LIMIT_S = 30.0  # for all recordings of one candidate
STEPPING_LIMIT_S = 60.0  # for following one call of host code
COLD = 0.3  # share of verified calls before which the L2 cache is emptied, as it is before timed ones
RESTORED = 0.3  # share of verified calls before which global variables are reset to their initial values
MANY_TIMES = 500  # calls of host code before the recorded one, for one call of each set
SOME_TIMES = 2  # the same for the other calls of the set
MOST_POSTED = 64  # operations of a call that is mapped ahead
MOST_MAPPED = 8  # calls whose tensors and scratch memory stay mapped


@dataclass(frozen=True)
class _Mapped:
    """A call whose launch list the player (the process that replays launches) holds under `number`, and the
    (begin, end) address ranges that are mapped for it."""

    number: int
    ranges: tuple[tuple[int, int], ...]

    def overlaps(self, other: "_Mapped") -> bool:
        return any(a < end and begin < b for a, b in self.ranges for begin, end in other.ranges)


class ReplayRunner:
    """A loaded candidate, on a GPU or on the emulator (an implementation of `Runner`). To run a call,
    `recorder` runs the candidate's host code without a GPU and records the launches that it asks for;
    `player`, another process, then replays them on the tensors in `arena`. `binary` is the candidate's shared
    object. When its host code queries the GPU, it is told the properties `gpu`. For anything else that it
    asks, `answer` gets the question as text (`LaunchList.question`) and returns a number. `limit_s` is the
    time limit of one command to the player in seconds."""

    def __init__(
        self,
        player: PlayerProcess,
        recorder: Recorder,
        binary: Path,
        gpu: GpuFacts,
        arena: Arena,
        answer: Callable[[str], int],
        limit_s: float,
    ) -> None:
        self._player = player
        self._recorder = recorder
        self._arena = arena
        self._answer = answer
        self._limit_s = limit_s
        self._recordings_left_s = RECORDINGS_LIMIT_S
        self._rng = random.Random(secrets.randbits(60))
        self._stream = self._rng.getrandbits(46) * 16
        code = device_code(binary.parent)
        addresses = window.draw_globals(code.globals, self._rng)
        self._candidate = Recordable(binary.parent, code, gpu, addresses)
        self._lists: dict[tuple[Argument, ...], LaunchList] = {}
        self._mapped: OrderedDict[tuple[Argument, ...], _Mapped] = OrderedDict()
        self._number = 0
        self._host_us = 0.0

    @property
    def pid(self) -> int:
        """Process id of the player, the process that replays the launches."""
        return self._player.pid

    @property
    def host_us(self) -> float:
        """CPU time in us of one call of the candidate's host code, averaged over many calls in one process; 0
        before anything was recorded."""
        return self._host_us

    def load(self, device_code_path: Path) -> None:
        """Load the device code (a cubin or PTX file) into the player, the process that replays launches, and
        tell it the kernels' parameters and the global variables' addresses. Raises CandidateDied or
        CandidateHung."""
        self.ask(f"module {device_code_path}")
        kernels = self._candidate.code.kernels
        words = [str(len(kernels))]
        for name, kernel in kernels.items():
            words += [name, str(len(kernel.parameters)), *(str(offset) for offset, _ in kernel.parameters)]
        self.ask(" ".join(["kernels", *words]))
        sizes = self._candidate.code.globals
        words = [f"{name} {self._candidate.addresses[name]} {size}" for name, size in sizes.items()]
        self.ask(" ".join(["globals", str(len(words)), *words]))

    def ask(self, command: str, limit_s: float | None = None) -> dict[str, Any]:
        """Send a command to the player, the process that replays launches, and return its answer, waiting
        `limit_s` seconds (default: the runner's limit). Raises CandidateDied if it ends or reports a fault,
        CandidateHung if it does not answer."""
        answer = self._player.command(command, limit_s or self._limit_s)
        if "fault" in answer:
            raise CandidateDied(str(answer["fault"]))
        return answer

    # --- recording ----------------------------------------------------------------------------------

    def record(self, calls: Sequence[Sequence[Argument]]) -> None:
        """Records the launches of these calls (each a list of arguments), except those that are recorded
        already. Each call is recorded three times: alone in a process; after another call and many calls of
        itself; and after itself, with other addresses and another stream. Nondeterministic is raised if the
        three do not launch the same. If host code asks something about the GPU, the question is answered and
        the call recorded again. Raises CandidateDied or CandidateHung as well."""
        wanted = [key for key in dict.fromkeys(_key(call) for call in calls) if key not in self._lists]
        made = {key: self._call(key) for key in wanted}
        for _ in range(MOST_QUESTIONS):
            if not wanted:
                return
            lists = self._recorded([made[key] for key in wanted])
            again = []
            for key, launches in zip(wanted, lists, strict=True):
                if launches.question is None:
                    self._lists[key] = launches
                    continue
                if launches.question not in self._candidate.facts:
                    self._candidate.facts[launches.question] = self._answer(launches.question)
                again.append(key)
            wanted = again
        if wanted:
            raise CandidateDied(f"the host code asks more than {MOST_QUESTIONS} questions about the GPU")

    def recorded(self, arguments: Sequence[Argument]) -> LaunchList:
        """The launches of a call with these arguments, recorded now if they were not before. Raises
        CandidateDied, CandidateHung or Nondeterministic."""
        key = _key(arguments)
        if key not in self._lists:
            self.record([key])
        return self._lists[key]

    def threads(self, arguments: Sequence[Argument]) -> int:
        return sum(prod(launch.grid) * prod(launch.block) for launch in self.recorded(arguments).launches)

    def stepped(self, arguments: Sequence[Argument], earlier: int) -> SteppedCall:
        self.recorded(arguments)  # its questions about the GPU are answered
        call = replace(self._call(_key(arguments)), filling=self._rng.randrange(256))
        pages = self._pages_elsewhere()
        there = _moved(call.arguments, pages)
        if earlier:
            call = replace(call, before=((earlier, call.arguments),))
        away, seed = pages * window.PAGE, self._rng.getrandbits(63)
        moved = replace(call, arguments=there, before=tuple((n, there) for n, _ in call.before))
        stream = call.stream + 16 * self._rng.randint(1, 1 << 20)
        moved = replace(moved, scratch=call.scratch + away, stream=stream)
        return self._recorder.step(self._candidate, call, moved, away, seed, STEPPING_LIMIT_S)

    def _call(self, key: tuple[Argument, ...]) -> CallToRecord:
        """The call to record for these arguments (in the form that `_key` makes), with a random address for
        scratch memory."""
        scratch, at_end = window.draw_scratch(self._rng), self._rng.random() < 0.5
        return CallToRecord(_arguments(key), scratch, at_end, self._stream)

    def _filled(self, call: CallToRecord) -> CallToRecord:
        """The same call in a process that fills memory from malloc with a random byte, before and after its
        use, so that nothing can be kept there."""
        return replace(call, filling=self._rng.randint(1, 255))

    def _recorded(self, calls: Sequence[CallToRecord]) -> list[LaunchList]:
        """The launch lists of the calls. Each is recorded three times: alone in a process; after another call
        and many calls of itself; and after itself, with other addresses and another stream. All three must
        launch the same, else Nondeterministic is raised. A list that ends with a `question` about the GPU is
        returned as it is, to be recorded again."""
        repeated = []
        often = self._rng.choice(calls)
        for call in calls:
            other, moved = self._rng.choice(calls).arguments, self._elsewhere(call.arguments)
            times = MANY_TIMES if call is often else SOME_TIMES
            repeated.append(call)
            repeated.append(replace(self._filled(call), before=((1, other), (times, call.arguments))))
            # At addresses and on a stream that no judge gives, as it may be in use.
            elsewhere = replace(self._filled(call), arguments=moved, before=((1, call.arguments),), stream=0)
            repeated.append(elsewhere)
        limit_s = min(RECORD_LIMIT_S, self._limit_s)
        if self._recordings_left_s <= 0:
            raise CandidateHung(RECORDINGS_LIMIT_S)
        start = time.monotonic()
        results = self._recorder.record(self._candidate, repeated, limit_s, self._recordings_left_s)
        self._recordings_left_s -= time.monotonic() - start
        for result in results:
            if isinstance(result, CandidateDied | CandidateHung):
                raise result
        lists = [result for result in results if isinstance(result, LaunchList)]
        checked: list[LaunchList] = []
        for call, alone, again, away in zip(calls, lists[::3], lists[1::3], lists[2::3], strict=True):
            ways = moved_ranges(call.arguments, repeated[3 * len(checked) + 2].arguments)
            same = alone.does_as(again) and alone.moved(ways).does_as(away)
            if alone.unloadable is not None:
                raise CandidateDied(f"load: {alone.unloadable}")
            asking = next((one for one in (alone, again, away) if one.question is not None), None)
            violations = (*alone.violations, *again.violations, *away.violations)
            if asking is None and not same and not violations:
                raise Nondeterministic("a second call with the same arguments launches something else")
            checked.append(asking or self._checked(replace(alone, violations=violations), call.arguments))
        seconds = self._recorder.seconds
        index = 3 * list(calls).index(often)
        self._host_us = max(0.0, (seconds[index + 1] - seconds[index]) / (MANY_TIMES + 1) * 1e6)
        return checked

    def _checked(self, launches: LaunchList, arguments: tuple[Argument, ...]) -> LaunchList:
        """The launch list with violations added that the recorder cannot see: programmatic dependent launches
        that never wait, and copies outside the memory of the call. Raises CandidateDied for a launch of a
        kernel that does not exist."""
        kernels = self._candidate.code.kernels
        tensors = [(a.address, a.address + a.bytes) for a in arguments if isinstance(a, Pointer)]
        addresses, sizes = self._candidate.addresses, self._candidate.code.globals
        variables = [(addresses[name], addresses[name] + size) for name, size in sizes.items()]
        violations = [*launches.violations, *launches.outside([*tensors, *variables])]
        for launch in launches.launches:
            kernel = kernels.get(launch.kernel)
            if kernel is None:
                raise CandidateDied(f"the host code launches {launch.kernel}, which is no kernel of the file")
            if launch.dependent and not kernel.waits:
                violations.append(
                    f"{launch.kernel} is launched as dependent and never waits for what it reads"
                )
        return replace(launches, violations=tuple(dict.fromkeys(violations)))

    def _elsewhere(self, arguments: tuple[Argument, ...]) -> tuple[Argument, ...]:
        """The same arguments with all tensors at other addresses, where no memory is mapped: for a recording
        that shows whether host code depends on addresses."""
        return _moved(arguments, self._pages_elsewhere())

    def _pages_elsewhere(self) -> int:
        """By how many pages tensors are moved to where no memory is mapped; drawn anew each time."""
        return (window.ELSEWHERE - window.BEGIN) // window.PAGE + self._rng.randint(1, 1 << 10)

    # --- replaying ----------------------------------------------------------------------------------

    def call(
        self,
        arguments: Sequence[Argument],
        *,
        scratch_poison: int,
        accounting: bool,
        kept: bool = False,
        limit_s: float | None = None,
    ) -> CallReport:
        launches = self.recorded(arguments)
        if launches.violations or launches.errors:
            return self.report(launches, {})
        number = self.mapped(arguments, alone=True)
        restored = 0 if kept else self._coin()
        command = f"call {number} {scratch_poison} {int(accounting)} {restored}"
        return self.report(launches, self.ask(command, limit_s))

    def time(self, arguments: Sequence[Argument]) -> TimeReport:
        launches = self.recorded(arguments)
        number = self.mapped(arguments)
        start = time.perf_counter()
        answer = self.ask(f"time {number} {self._rng.randrange(256)}")
        owner_us = (time.perf_counter() - start) * 1e6
        report = self.report(launches, answer)
        if report.error:
            return TimeReport(report, 0.0, 0.0, 0.0, owner_us, 0.0)
        clocks = [float(answer[name]) for name in ("event_us", "span_us", "wall_us")]
        flush_us = float(self._player.wait_ready()["flush_us"])
        return TimeReport(report, clocks[0], clocks[1], clocks[2], owner_us, flush_us)

    def _coin(self) -> int:
        """1 to reset global variables before a call, 0 to keep them, at random (1 in a fraction RESTORED of
        calls): a kernel must be right with initial values and with those that an earlier call left."""
        return int(self._rng.random() < RESTORED)

    def again(self, arguments: Sequence[Argument], count: int) -> BatchReport:
        answer = self.ask(f"again {self.mapped(arguments)} {count} {self._rng.randrange(256)}")
        return BatchReport(float(answer["wall_us"]), float(answer["event_us"]))

    def profile(self, arguments: Sequence[Argument], limit_s: float) -> CallReport:
        """Runs one call with these `arguments` to warm up, and then the same call inside a profiler's range
        (cudaProfilerStart to cudaProfilerStop), so that a profiler that the player was started under records
        this call alone. Both together may take `limit_s` seconds. Returns the report of the second call: what
        it launched, and its errors."""
        return self.report(self.recorded(arguments), self.ask(f"profile {self.mapped(arguments)}", limit_s))

    def mapped(self, arguments: Sequence[Argument], *, alone: bool = False) -> int:
        """Prepares a call with these `arguments` in the player (the process that replays launches), if that
        was not done before: maps the memory of its tensors, and sends its launch list (the recorded launches
        and copies, as lines). Returns the number by which later commands name the call. With `alone`, the
        memory of all other calls is unmapped first, so that a stray access to it faults."""
        return self._map(arguments, self.ask, alone=alone)

    def prepare(self, arguments: Sequence[Argument]) -> None:
        launches = self.recorded(arguments)
        refused = launches.violations or launches.errors
        # Scratch would be taken while the reference needs memory, too; long lists do not fit into the pipe.
        if not refused and not launches.scratch and len(launches.operations) <= MOST_POSTED:
            self._map(arguments, self._player.post, alone=True)

    def _map(self, arguments: Sequence[Argument], send: Callable[[str], object], *, alone: bool) -> int:
        """Does what `mapped` says by commands that it hands to `send`."""
        key = _key(arguments)
        for other in [k for k in self._mapped if alone and k != key]:
            send(f"drop {self._mapped.pop(other).number}")
        if key in self._mapped:
            self._mapped.move_to_end(key)
            return self._mapped[key].number
        launches = self.recorded(arguments)
        pointers = [a for a in arguments if isinstance(a, Pointer)]
        room = _Mapped(self._number + 1, tuple(self._ranges(pointers, launches)))
        self._make_room(room, send)
        self._number += 1
        words = []
        for pointer in pointers:
            words.append(f"{pointer.slot} {self._mapping(pointer)[0]} {int(pointer.written)}")
            words.append(f"{pointer.address} {pointer.bytes} {pointer.name}")
        send(" ".join([f"map {self._number} {len(pointers)}", *words]))
        send("\n".join([f"list {self._number} {len(launches.operations)}", *launches.operations]))
        self._mapped[key] = room
        return self._number

    def _make_room(self, wanted: "_Mapped", send: Callable[[str], object]) -> None:
        """Unmap calls whose address ranges overlap with `wanted`, and the least recently used others until
        fewer than MOST_MAPPED remain, by commands that it hands to `send`."""
        for key, other in list(self._mapped.items()):
            if len(self._mapped) >= MOST_MAPPED or wanted.overlaps(other):
                del self._mapped[key]
                send(f"drop {other.number}")

    def _mapping(self, pointer: Pointer) -> tuple[int, int]:
        """The (begin, end) addresses at which the whole slot (the memory that holds the tensor) of a pointer
        is mapped."""
        slot = self._arena.slots[pointer.slot]
        begin = pointer.address - (pointer.offset - slot.start)
        return begin, begin + slot.bytes

    def _ranges(self, pointers: Sequence[Pointer], launches: LaunchList) -> list[tuple[int, int]]:
        """The (begin, end) addresses that a call needs mapped: the memory of its tensors and its scratch
        allocations."""
        scratch = [(a // window.PAGE * window.PAGE, a + size) for a, size in launches.scratch.items()]
        return [self._mapping(pointer) for pointer in pointers] + scratch

    def drop_all(self) -> None:
        """Has the player (the process that replays launches) forget all calls of this candidate and unmap
        their memory. The tools of `toolbox.py` do this before they load the next candidate into the same
        player."""
        while self._mapped:
            self.ask(f"drop {self._mapped.popitem(last=False)[1].number}")

    def report(self, launches: LaunchList, answer: dict[str, Any]) -> CallReport:
        """Makes the report of a call. `launches` is what its host code asked for. `answer` is what the player
        (the process that replays launches) answered to the command that replayed the call; {} if the call was
        not replayed."""
        kept = launches.kept_scratch
        return CallReport(
            error=launches.errors[0] if launches.errors else str(answer.get("error", "")),
            violations=launches.violations,
            live_bytes=sum(size for _, size in kept),
            leaks=tuple(
                f"leak: {size} bytes of cudaMallocAsync number {number} of the call are still held"
                for number, size in kept
            ),
            work=tuple(_work(work) for work in answer.get("work", [])),
        )

    def close(self) -> None:
        self._player.kill()


def _moved(arguments: tuple[Argument, ...], pages: int) -> tuple[Argument, ...]:
    """The same arguments with all tensors `pages` pages further on."""
    away = pages * window.PAGE
    return tuple(replace(a, address=a.address + away) if isinstance(a, Pointer) else a for a in arguments)


def _arguments(key: tuple[Any, ...]) -> tuple[Argument, ...]:
    """The arguments of a call, from their form as a dictionary key (`_key`)."""
    return tuple(a[1] if isinstance(a, tuple) else a for a in key)


def _work(work: dict[str, Any]) -> LaunchedWork:
    """One launch, copy or fill from the `work` entry of a player's answer."""
    return LaunchedWork(
        name=str(work["name"]),
        grid=tuple(work["grid"]),
        block=tuple(work["block"]),
        shared_bytes=int(work["shared_bytes"]),
        duration_us=work.get("us"),
    )


def _key(arguments: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments of a call as a dictionary key that keeps True, 1 and 1.0 apart; a key that is passed in is
    returned as it is."""
    return tuple(a if isinstance(a, Pointer | tuple) else (type(a).__name__, a) for a in arguments)
