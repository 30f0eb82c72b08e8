"""`stop` and `steer`: ask something of a search that runs in another process.

kb.steer("last", budget=40, pin=["vectorized_memory_access"], note="at most 64 registers")
kb.stop("last")"""

from collections.abc import Sequence
from pathlib import Path

from kernelblaster.api.searching import runs_folder
from kernelblaster.store.control import asked_of, steer_run, stop_run
from kernelblaster.store.run import open_run
from kernelblaster.store.steering import SteeringCommand


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
    """Asks a running search for something; it obeys before its next step. A run that nobody works on at the
    moment obeys when it is resumed. Returns the commands, which are on the disk when this returns. Raises
    StoreError if there is no such run.

        run:          its name, a unique beginning of that, its folder, or `last`; `runs` is the folder of
                      runs, the user's own if left out.
        budget, seconds, gpu_seconds:
                      new limits for the whole search: candidates to judge, wall-clock seconds, and seconds
                      for which it holds the device.
        pin:          techniques to try first wherever they apply.
        forbid:       techniques not to try at all.
        release:      techniques to treat as any other again, after they were pinned or forbidden.
        note:         a text that is added to the next questions to a language model, if one takes part;
                      with `standing`, to all further ones.
        by:           who asks, for the record."""
    return steer_run(
        _folder(run, runs),
        budget=budget,
        seconds=seconds,
        gpu_seconds=gpu_seconds,
        pin=pin,
        forbid=forbid,
        release=release,
        note=note,
        standing=standing,
        by=by,
    )


def stop(
    run: str | Path, *, now: bool = False, runs: str | Path | None = None, by: str = "python"
) -> SteeringCommand | None:
    """Stops a search that runs in another process of this machine. What it has judged is kept, and `resume`
    continues it. Without `now`, the search is asked to stop: it ends before its next candidate, and this
    function returns the request at once. With `now`, the search's process is interrupted as by Ctrl-C, and
    terminated if that does not end it; returns None once the process has ended. `now` is not possible for a
    search of a bench. Raises StoreError if no process of this machine works on the run, or it cannot be
    stopped."""
    return stop_run(_folder(run, runs), now=now, by=by)


def steering_of(run: str | Path, *, runs: str | Path | None = None) -> list[tuple[SteeringCommand, bool]]:
    """Returns all requests that `steer` and `stop` made of a run, the oldest first, each with True if the
    search has obeyed it, else False. `run` is its name, a unique beginning of that, its folder, or `last`;
    `runs` is the folder of runs, None for the user's own. Raises StoreError if there is no such run."""
    return asked_of(_folder(run, runs))


def _folder(run: str | Path, runs: str | Path | None) -> Path:
    """The folder of a run that is given by its name, the beginning of it, its folder or `last`; `runs` is
    where to look (None: the user's own runs). Raises StoreError if there is none."""
    with open_run(runs_folder(runs), run) as opened:
        return opened.folder
