"""Launch lists: what a candidate's host code asked of the GPU in one call (launches, copies, fills,
allocations), as data in stream order.

They come from a process that runs untrusted code, so the form of every line is checked before it is used
(native/recording.h defines the lines). A list that passes is safe to replay. The process that replays it, the
player, can only touch memory that is mapped for the call.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

MOST_SHOWN = 16

_NUMBER = r"\d{1,20}"
_NAME = r"[A-Za-z_$][\w$]{0,2000}"
_HEX = r"(?:-|(?:[0-9a-f]{2})+)"
_FORMS = {
    "attribute": rf"{_NAME} \d{{1,3}} -?\d{{1,10}}",
    "alloc": rf"{_NUMBER} {_NUMBER}",
    "free": _NUMBER,
    "tensormap": rf"\d{{1,6}} (?:tiled|im2col)(?: -?{_NUMBER}){{1,48}}",
    "launch": rf"{_NAME}(?: \d{{1,10}}){{6}} \d{{1,10}} [0-3](?: \d{{1,5}}){{3}} \d{{1,2}} {_HEX}",
    "fill": rf"{_NUMBER} {_NUMBER} \d{{1,3}} {_NUMBER} {_NUMBER}",
    "copy": " ".join([_NUMBER] * 6),
    "upload": rf"{_NUMBER} {_HEX}",
}
_SHAPE = rf"{_NAME} -?\d{{1,10}} {_NUMBER}"  # a kernel, threads of a block, shared memory
_QUESTION = re.compile(
    rf"(?:blocks|cluster_size) {_SHAPE}|clusters {_SHAPE} {_NUMBER}|shared {_NAME} -?\d{{1,10}} -?\d{{1,10}}",
    re.ASCII,
)
_FORM = {kind: re.compile(form, re.ASCII) for kind, form in _FORMS.items()}
_KEPT = ("attribute ",)
_ADDRESSES = {  # which words of an operation are addresses
    "alloc": (1,),
    "free": (1,),
    "fill": (1,),
    "copy": (1, 3),
    "upload": (1,),
    "tensormap": (5,),
}
_MESSAGES = ("error", "violation", "ask", "unloadable", "broken")


class InvalidLaunchList(ValueError):
    """The output of the recorder (the process that runs a candidate's host code) is no launch list: a line
    has an unknown form, or it ends early."""


@dataclass(frozen=True)
class RecordedLaunch:
    """One kernel launch in a launch list (what a candidate's host code asked of the GPU in one call).
    `kernel` is the mangled name, `shared_bytes` the dynamic shared memory in bytes. `grid` and `block` are in
    blocks and threads. `cooperative`: a cooperative launch, whose blocks may wait for each other.
    `dependent`: a programmatic dependent launch, which may overlap with the previous one. `cluster` is the
    cluster size in blocks, (0, 0, 0) if the launch sets none."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    cooperative: bool
    dependent: bool
    cluster: tuple[int, int, int]


@dataclass(frozen=True)
class LaunchList:
    """What one call of a candidate's host code asked of the GPU. `operations` are the lines to replay, in
    stream order. `errors` are the errors that CUDA calls returned. `violations` are breaches of the rules for
    candidates, in words. `question` is something that the host code asked about the GPU and that was not
    known: the list ends there, and the call must be recorded again with the answer. It is None if the list is
    complete. `unloadable` says why the shared object could not be loaded; None if it could."""

    operations: tuple[str, ...]
    errors: tuple[str, ...] = ()
    violations: tuple[str, ...] = ()
    question: str | None = None
    unloadable: str | None = None

    @property
    def scratch(self) -> dict[int, int]:
        """The scratch memory (cudaMallocAsync) that the call allocated: bytes by address, in order of
        allocation."""
        return {int(w[1]): int(w[2]) for w in self._words("alloc")}

    @property
    def kept_scratch(self) -> list[tuple[int, int]]:
        """(number, bytes) of each scratch allocation (cudaMallocAsync) that the call did not free; numbers
        count its allocations from 1."""
        freed = {int(words[1]) for words in self._words("free")}
        blocks = enumerate(self.scratch.items(), 1)
        return [(number, size) for number, (address, size) in blocks if address not in freed]

    @cached_property
    def launches(self) -> tuple[RecordedLaunch, ...]:
        """The kernels that the call launched, in stream order, with grid, block and shared memory."""
        return tuple(_launch(words) for words in self._words("launch"))

    @property
    def works(self) -> int:
        """How many pieces of work the call put on the stream: kernel launches, memsets and copies.
        Allocations do not count."""
        return sum(op.split(" ", 1)[0] in ("launch", "fill", "copy", "upload") for op in self.operations)

    def does_as(self, other: "LaunchList") -> bool:
        """True if this recording and the `other` one put the same work on the stream, with the same errors
        and violations. Calls of host code that set kernel attributes (cudaFuncSetAttribute) are ignored,
        since host code may make them in its first call only."""
        mine, theirs = ([op for op in one.operations if not op.startswith(_KEPT)] for one in (self, other))
        return mine == theirs and self.errors == other.errors and self.violations == other.violations

    def moved(self, ranges: Sequence[tuple[int, int, int]]) -> "LaunchList":
        """Returns a copy of this list with addresses translated. `ranges` has (begin, end, new begin) for
        each range to move: an address in it becomes the one at the same distance from the new begin. In
        kernel parameters and uploaded data, every 8-byte word whose value lies in a range counts as an
        address."""

        def translated(address: int) -> int:
            return next((address - a + to for a, end, to in ranges if a <= address <= end), address)

        def line(op: str) -> str:
            words = op.split(" ")
            if words[0] in ("launch", "upload") and words[-1] != "-":
                data = bytearray.fromhex(words[-1])
                for at in range(0, len(data) - 7, 8):
                    word = int.from_bytes(data[at : at + 8], "little")
                    data[at : at + 8] = translated(word).to_bytes(8, "little")
                words[-1] = data.hex()
            for at in _ADDRESSES.get(words[0], ()):
                words[at] = str(translated(int(words[at])))
            return " ".join(words)

        return replace(self, operations=tuple(line(op) for op in self.operations))

    def outside(self, ranges: Sequence[tuple[int, int]]) -> list[str]:
        """Checks the list's fills and copies. A call may touch the address ranges (begin, end) in `ranges`,
        and scratch memory that it allocated itself. Returns a sentence for each fill or copy that touches
        anything else; empty if none does."""
        known = [*ranges, *((a, a + size) for a, size in self.scratch.items())]

        def held(begin: int, size: int) -> bool:
            return any(a <= begin and begin + size <= end for a, end in known)

        problems = []
        for op in self.operations:
            kind, *rest = op.split(" ")
            if kind == "fill":
                a, pitch, _, width, height = (int(word) for word in rest)
                problems += (
                    [] if held(a, pitch * (height - 1) + width) else ["a memset outside device memory"]
                )
            elif kind == "copy":
                a, pitch, b, other, width, height = (int(word) for word in rest)
                both = held(a, pitch * (height - 1) + width) and held(b, other * (height - 1) + width)
                problems += [] if both else ["a copy outside device memory"]
            elif kind == "upload" and rest[1] != "-":
                problems += [] if held(int(rest[0]), len(rest[1]) // 2) else ["a copy outside device memory"]
        return problems

    def _words(self, kind: str) -> list[list[str]]:
        """The words of each operation line of this `kind` ("launch", "alloc", ...); the first word is the
        kind."""
        return [op.split(" ") for op in self.operations if op.startswith(kind + " ")]


def parse(text: str) -> LaunchList:
    """The launch list in the output of a recorder, the process that ran a candidate's untrusted host code.
    Raises InvalidLaunchList if any line has an unknown form or the text ends early."""
    operations: list[str] = []
    messages: dict[str, list[str]] = {kind: [] for kind in _MESSAGES}
    lines = text.split("\n")
    if not lines or lines.pop() != "":
        raise InvalidLaunchList("it ends in the middle of a line")
    ended = bool(lines) and lines[-1] == "end"
    for line in lines[:-1] if ended else lines:
        kind, _, rest = line.partition(" ")
        form = _FORM.get(kind)
        if form is not None and form.fullmatch(rest):
            operations.append(line)
        elif (
            kind in messages
            and len(messages[kind]) < MOST_SHOWN
            and (kind != "ask" or _QUESTION.fullmatch(rest))
        ):
            messages[kind].append("".join(c if c.isprintable() else " " for c in rest[:400]))
        else:
            raise InvalidLaunchList(f"a line that is no operation: {line[:80]!r}")
    if messages["broken"]:
        raise InvalidLaunchList(messages["broken"][0])
    if not ended and not messages["ask"] and not messages["unloadable"]:
        raise InvalidLaunchList("it does not end")
    return LaunchList(
        operations=tuple(operations),
        errors=tuple(messages["error"]),
        violations=tuple(dict.fromkeys(messages["violation"])),
        question=messages["ask"][0] if messages["ask"] else None,
        unloadable=messages["unloadable"][0] if messages["unloadable"] else None,
    )


def _launch(words: list[str]) -> RecordedLaunch:
    """Parses a `launch` line of a launch list, already split into words, whose order native/recording.h
    defines."""
    numbers = [int(word) for word in words[2:13]]
    x, y, z, bx, by, bz, shared, flags, cx, cy, cz = numbers
    return RecordedLaunch(
        words[1], (x, y, z), (bx, by, bz), shared, bool(flags & 1), bool(flags & 2), (cx, cy, cz)
    )
