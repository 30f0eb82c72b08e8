"""`steering_log`: what people asked of a run, and what is in force now: the limit of candidates, and
techniques that are pinned (tried first) or forbidden."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelblaster.store.events import RunEvent
from kernelblaster.store.steering import (
    STEERED,
    STOPPED,
    ForbidTechnique,
    PinTechnique,
    ReleaseTechnique,
    SetBudget,
    SteeringCommand,
    describe_action,
    read_commands,
)

SHOWN = 30  # commands, the latest ones


@dataclass(frozen=True)
class AskedLine:
    """One thing that somebody asked of a search: at which time (seconds since 1970), by whom, and what, in
    words. `taken`: the search has obeyed it."""

    at: float
    by: str
    words: str
    taken: bool


@dataclass(frozen=True)
class SteeringLog:
    """What people asked of a run, and what is in force now. `lines` are the last 30 requests (SHOWN), the
    latest first. `limit` is the number of candidates that was asked for last (None: none was). `pinned` are
    the techniques that are tried first at present, `forbidden` those that are not tried. `problems` are
    sentences about lines of the file that cannot be read."""

    lines: tuple[AskedLine, ...]
    limit: int | None
    pinned: tuple[str, ...]
    forbidden: tuple[str, ...]
    problems: tuple[str, ...]


def steering_log(folder: Path, events: Sequence[RunEvent]) -> SteeringLog:
    """Returns the last requests that people made of the search of the run in `folder`, and what is in force
    after all of them: the limit of candidates, and the techniques that are pinned (tried first) or forbidden.
    `events` are those of the run; they show which requests the search has obeyed."""
    taken = {
        str(one.get("id"))
        for event in events
        if event.kind in (STEERED, STOPPED)
        for one in event.data.get("commands", ())
    }
    commands, problems = read_commands(folder)
    limit, marks = _now(commands)
    lines = [AskedLine(one.at, one.by, describe_action(one.action), one.id in taken) for one in commands]
    pinned, forbidden = (
        tuple(n for n, kind in marks.items() if kind == wanted) for wanted in ("pin", "forbid")
    )
    return SteeringLog(tuple(lines[: -1 - SHOWN : -1]), limit, pinned, forbidden, tuple(problems[:5]))


def _now(commands: Sequence[SteeringCommand]) -> tuple[int | None, dict[str, str]]:
    """Returns what is in force after these commands: (the limit of candidates that was asked for last or
    None, and by technique "pin" or "forbid")."""
    limit, marks = None, {}
    for command in commands:
        match command.action:
            case SetBudget(evaluations=int(evaluations)):
                limit = evaluations
            case PinTechnique(technique=name):
                marks[name] = "pin"
            case ForbidTechnique(technique=name):
                marks[name] = "forbid"
            case ReleaseTechnique(technique=name):
                marks.pop(name, None)
    return limit, marks
