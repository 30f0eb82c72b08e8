"""What people ask of a search while it runs: commands that are appended to a file in the run's folder.

    append_command(folder, SetBudget(evaluations=40), by="dashboard")  # judge 40 candidates in all
    commands, problems = read_commands(folder)  # all that was asked so far; lines that are not valid

Anybody who may write to the folder may append, and need not wait for the search. The search reads the file
between two steps and records in its log which commands it has obeyed (sessions/steering.py).
"""

import os
import secrets
import time
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from kernelblaster.errors import StoreError
from kernelblaster.plain_text import one_line
from kernelblaster.records.record import Record
from kernelblaster.store.run import STEERING, holds_run

STEERED, STOPPED = "steering", "stopped"  # kinds of a run's events: commands that were taken; an early end
LONGEST_NOTE = 2000  # characters: a prompt has to have room for it
LARGEST_FILE = 4_000_000  # bytes that are read

TechniqueName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[\w .+/-]+$")]


class StopSearch(Record):
    """A request to a running search: end before the next candidate is judged. What was judged is kept, and
    the run can be resumed."""

    kind: Literal["stop"] = "stop"


class SetBudget(Record):
    """A request to a running search for new limits: `evaluations` is the number of candidates to judge,
    `wall_seconds` the wall time, `gpu_seconds` the time on the device. These are totals: what the search has
    spent already counts. None leaves a limit as it is."""

    kind: Literal["budget"] = "budget"
    evaluations: int | None = Field(default=None, ge=1, le=1_000_000)
    wall_seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    gpu_seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _has_a_limit(self) -> Self:
        if self.evaluations is None and self.wall_seconds is None and self.gpu_seconds is None:
            raise ValueError("a budget needs at least one limit")
        return self


class PinTechnique(Record):
    """A request to a running search: from now on, try this technique first wherever it applies."""

    kind: Literal["pin"] = "pin"
    technique: TechniqueName


class ForbidTechnique(Record):
    """A request to a running search: from now on, do not try this technique, neither alone nor as part of a
    recipe."""

    kind: Literal["forbid"] = "forbid"
    technique: TechniqueName


class ReleaseTechnique(Record):
    """A request to a running search: from now on, treat this technique as any other, neither pinned nor
    forbidden."""

    kind: Literal["release"] = "release"
    technique: TechniqueName


class LeaveNote(Record):
    """A request to a running search: show this `text` to the language model, in the questions of the next
    step or, if `standing`, in all further ones. Without a model it is only recorded."""

    kind: Literal["note"] = "note"
    text: str = Field(min_length=1, max_length=LONGEST_NOTE)
    standing: bool = False


SteeringAction = Annotated[
    StopSearch | SetBudget | PinTechnique | ForbidTechnique | ReleaseTechnique | LeaveNote,
    Field(discriminator="kind"),
]


class SteeringCommand(Record):
    """One request to a search: an `action`, `by` whom or from where it was asked ("dashboard", "cli"), and
    the time `at`, in seconds since 1970. The `id` tells it from equal requests."""

    id: str = Field(pattern="^[0-9a-f]{16}$")
    at: float
    by: str = Field(max_length=100)
    action: SteeringAction


def append_command(folder: Path, action: SteeringAction, by: str) -> SteeringCommand:
    """Asks the search in a run's `folder` for an `action`, and returns the request, which is on the disk
    (fsync) by then. `by` says who asks ("cli", "dashboard"). Raises StoreError if the folder holds no run,
    cannot be written, or its file of requests would exceed 4 MB (LARGEST_FILE)."""
    if not holds_run(folder):
        raise StoreError(f"{folder}: holds no run.")
    command = SteeringCommand(id=secrets.token_hex(8), at=time.time(), by=one_line(by)[:100], action=action)
    line = command.model_dump_json().encode() + b"\n"
    path = folder / STEERING
    try:
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(handle).st_size
            if size + len(line) > LARGEST_FILE:
                raise StoreError(f"{path}: holds too many commands already.")
            cut_off = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
            os.write(handle, b"\n" + line if cut_off else line)  # one write: lines of others stay whole
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise StoreError(f"{path}: cannot write: {error.strerror or error}.") from error
    return command


def read_commands(folder: Path) -> tuple[list[SteeringCommand], list[str]]:
    """Returns (the requests in a run's `folder` in the order of appending, sentences about lines that are not
    valid). If the last line is still being written, it is left out. Both are empty if nothing was asked."""
    path = folder / STEERING
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE)
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [f"{path}: {error.strerror or error}"]
    commands: dict[str, SteeringCommand] = {}
    problems = []
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        if not line.strip():
            continue
        try:
            command = SteeringCommand.model_validate_json(line)
        except ValidationError:
            problems.append(f"{path}: line {number} is no command.")
            continue
        commands.setdefault(command.id, command)
    return list(commands.values()), problems


def describe_action(action: SteeringAction) -> str:
    """Returns a request to a running search (`action`) in words for people, like `budget of 40 candidates` or
    `forbid unrolling`."""
    match action:
        case StopSearch():
            return "stop"
        case SetBudget():
            limits = (
                (action.evaluations, "candidates"),
                (action.wall_seconds, "s"),
                (action.gpu_seconds, "s of the device"),
            )
            return "budget of " + ", ".join(
                f"{value:g} {unit}" for value, unit in limits if value is not None
            )
        case LeaveNote():
            return f"{'standing note' if action.standing else 'note'}: {action.text}"
    return f"{action.kind} {action.technique}"
