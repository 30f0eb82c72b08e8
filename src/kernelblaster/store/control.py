"""Lets another process ask the search of a run for something (other limits, techniques to try first or not at
all, a stop), or end the search's process by a signal."""

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from kernelblaster.errors import KernelBlasterError, StoreError
from kernelblaster.store.run import Run, first_event_of
from kernelblaster.store.steering import (
    STEERED,
    STOPPED,
    ForbidTechnique,
    LeaveNote,
    PinTechnique,
    ReleaseTechnique,
    SetBudget,
    SteeringAction,
    SteeringCommand,
    StopSearch,
    append_command,
    read_commands,
)
from kernelblaster.store.writer import writer_of

ENDING_S = 8.0  # seconds that a process has to end after each signal
PAUSE_S = 0.05


def steer_run(
    folder: Path,
    *,
    budget: int | None = None,
    seconds: float | None = None,
    gpu_seconds: float | None = None,
    pin: Sequence[str] = (),
    forbid: Sequence[str] = (),
    release: Sequence[str] = (),
    note: str | None = None,
    standing: bool = False,
    by: str,
) -> list[SteeringCommand]:
    """Asks the search of the run in `folder` for something; it obeys before its next step. Returns the
    commands, which are on the disk (fsync) by then. `by` says who asks ("cli"). Raises KernelBlasterError for
    a value that is not allowed.

    `budget` (candidates judged), `seconds` (wall time) and `gpu_seconds` (time on the device) are new limits;
    what the search has spent already counts. None leaves a limit as it is. `pin`: techniques to try first.
    `forbid`: techniques not to try. `release`: techniques that are no longer pinned or forbidden. `note` is a
    text for the language model: for its next questions or, with `standing`, for all further ones.
    """
    actions: list[SteeringAction] = []
    try:
        if (budget, seconds, gpu_seconds) != (None, None, None):
            actions.append(SetBudget(evaluations=budget, wall_seconds=seconds, gpu_seconds=gpu_seconds))
        actions += [PinTechnique(technique=name) for name in pin]
        actions += [ForbidTechnique(technique=name) for name in forbid]
        actions += [ReleaseTechnique(technique=name) for name in release]
        if note is not None:
            actions.append(LeaveNote(text=note, standing=standing))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the command"
        words = str(first["msg"]).removeprefix("Value error, ").removesuffix(".")
        raise KernelBlasterError(f"{where}: {words}.") from error
    return [append_command(folder, action, by) for action in actions]


def raise_budget(run: Run, budget: int | None, by: str) -> None:
    """Asks the search of an open run to go on until `budget` candidates are judged in all; those judged so
    far count. None does nothing. `by` says who asks. Raises KernelBlasterError if so many are judged
    already."""
    if budget is None:
        return
    judged = sum(event.kind == "evaluation" for event in run.events)
    if budget <= judged:
        raise KernelBlasterError(
            f"{run.name}: {judged} candidates are judged already, and a budget counts them all: give more."
        )
    steer_run(run.folder, budget=budget, by=by)


def stop_run(folder: Path, *, now: bool, by: str) -> SteeringCommand | None:
    """Stops the search of the run in `folder`. Without `now`, asks it to end before its next candidate, and
    returns this command. With `now`, ends the process by a signal, waits until it has ended, and returns
    None. `by` says who asks, for the record. Raises StoreError if no process of this machine works on the
    run. With `now`, also raises StoreError if the process does not end, or if the run belongs to a bench,
    because the bench's process does more than this run."""
    pid = writer_of(folder)
    if pid is None:
        raise StoreError(f"{folder.name}: no process of this machine works on it.")
    if not now:
        return append_command(folder, StopSearch(), by)
    begun = first_event_of(folder)
    if begun is None or "job" in begun.data:
        raise StoreError(
            f"{folder.name}: belongs to a bench, whose process does more than this; ask it to stop."
        )
    for sent in (signal.SIGTERM,) if _ignores_interrupts(pid) else (signal.SIGINT, signal.SIGTERM):
        _send(folder, pid, sent)
        until = time.monotonic() + ENDING_S
        while time.monotonic() < until:
            if writer_of(folder) != pid:
                return None
            time.sleep(PAUSE_S)
    raise StoreError(f"{folder.name}: process {pid} does not end; end it by hand.")


def asked_of(folder: Path) -> list[tuple[SteeringCommand, bool]]:
    """Returns what was asked of the run in `folder`, the oldest first, as (command, True if the search has
    obeyed it). Raises StoreError if the run's log is damaged."""
    with Run(folder, writing=False) as run:
        events = [event for event in run.events if event.kind in (STEERED, STOPPED)]
    taken = {one["id"] for event in events for one in event.data.get("commands", ())}
    return [(command, command.id in taken) for command in read_commands(folder)[0]]


def _ignores_interrupts(pid: int) -> bool:
    """Whether the process `pid` ignores SIGINT (Ctrl-C), as those do that a script started in the background
    (`... &`). Another signal is needed to stop it."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        ignored = int(next(line for line in lines if line.startswith("SigIgn:")).split()[1], 16)
        return bool(ignored >> (signal.SIGINT - 1) & 1)
    return False


def _send(folder: Path, pid: int, sent: signal.Signals) -> None:
    """Sends a signal to the process `pid`, which works on the run in `folder`; ignored if it has ended.
    Raises StoreError if it belongs to another user."""
    try:
        with suppress(ProcessLookupError):  # it has ended meanwhile
            os.kill(pid, sent)
    except PermissionError as error:
        raise StoreError(
            f"{folder.name}: process {pid} is another user's; ask it to stop instead."
        ) from error
