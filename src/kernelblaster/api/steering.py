"""`stop` and `steer`: what people ask of a search that runs in another process.

kb.steer("last", budget=40, pin=["vectorized_memory_access"], note="at most 64 registers")
kb.stop("last")
"""

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from kernelblaster.api.searching import runs_folder
from kernelblaster.errors import KernelBlasterError, StoreError
from kernelblaster.store.events import first_event
from kernelblaster.store.run import LOG, open_run
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


def steer(
    run: str | Path,
    *,
    budget: int | None = None,
    seconds: float | None = None,
    gpu_seconds: float | None = None,
    pin: Sequence[str] = (),
    forbid: Sequence[str] = (),
    release: Sequence[str] = (),
    note: str | None = None,
    standing: bool = False,
    runs: str | Path | None = None,
    by: str = "python",
) -> list[SteeringCommand]:
    """Ask a search for something while it runs; it obeys before its next step, and a run that is not running
    when it is resumed. Returns the commands, which are on the disk. Raises StoreError if there is no such
    run.

    budget, seconds, gpu_seconds: new limits in all: candidates to judge, seconds, seconds of the device.
    pin: techniques to try first wherever they apply; forbid: not to try at all; release: neither.
    note: a text for the next questions to a language model, if one takes part; if `standing`, for all
    further. by: who asks, for the record.
    """
    folder = run_folder(run, runs)
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
        raise KernelBlasterError(f"{where}: {first['msg']}.") from error
    return [append_command(folder, action, by) for action in actions]


def stop(
    run: str | Path, *, now: bool = False, runs: str | Path | None = None, by: str = "python"
) -> SteeringCommand | None:
    """Stop a search that runs in another process of this machine; what it has judged is kept, and `resume`
    goes on. By default it is asked to stop, and does before its next candidate. With `now`, its process is
    interrupted as by Ctrl-C, and ended if it does not end by that; returns None then, when it has ended. A
    search of a bench is only asked. Raises StoreError if the run is not running, or cannot be stopped."""
    folder = run_folder(run, runs)
    pid = writer_of(folder)
    if pid is None:
        raise StoreError(f"{folder.name}: no process of this machine works on it.")
    if not now:
        return append_command(folder, StopSearch(), by)
    begun = first_event(folder / LOG)
    if begun is None or "job" in begun.data:
        raise StoreError(
            f"{folder.name}: belongs to a bench, whose process does more than this; ask it to stop."
        )
    for sent in (signal.SIGINT, signal.SIGTERM):
        _send(folder, pid, sent)
        until = time.monotonic() + ENDING_S
        while time.monotonic() < until:
            if writer_of(folder) != pid:
                return None
            time.sleep(PAUSE_S)
    raise StoreError(f"{folder.name}: process {pid} does not end; end it by hand.")


def steering_of(run: str | Path, *, runs: str | Path | None = None) -> list[tuple[SteeringCommand, bool]]:
    """What was asked of a run, the oldest first, each with whether the search has taken it. Raises StoreError
    if there is no such run."""
    with open_run(runs_folder(runs), run) as opened:
        events = [event for event in opened.events if event.kind in (STEERED, STOPPED)]
        taken = {one["id"] for event in events for one in event.data.get("commands", ())}
        return [(command, command.id in taken) for command in read_commands(opened.folder)[0]]


def run_folder(run: str | Path, runs: str | Path | None) -> Path:
    """The folder of a run that is given by its name, a unique prefix of it, its folder, or `last`. Raises
    StoreError if there is none."""
    with open_run(runs_folder(runs), run) as opened:
        return opened.folder


def _send(folder: Path, pid: int, sent: signal.Signals) -> None:
    """Send a signal to the process that works on a run. Raises StoreError if that is not allowed."""
    try:
        with suppress(ProcessLookupError):  # it has ended meanwhile
            os.kill(pid, sent)
    except PermissionError as error:
        raise StoreError(
            f"{folder.name}: process {pid} is another user's; ask it to stop instead."
        ) from error
