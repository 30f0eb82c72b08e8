"""What a page of the dashboard can ask of a run: to stop, steer or resume its search. Each function takes the
data of the page's request, calls the public API, and returns JSON data with a sentence that the page
shows."""

from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any

from kernelblaster.errors import KernelBlasterError
from kernelblaster.serve.dashboard import Dashboard
from kernelblaster.store.control import steer_run, stop_run
from kernelblaster.store.steering import describe_action

BY = "dashboard"
MOST_TECHNIQUES = 20  # in one request

RunAction = Callable[[Dashboard, Path, dict[str, Any]], dict[str, Any]]


def stop_search(dashboard: Dashboard, folder: Path, data: dict[str, Any]) -> dict[str, Any]:
    """Stops the search of the run in `folder`, which `dashboard` serves: it ends before its next candidate
    or, if `data["now"]` is true, its process is ended at once. `data["confirm"]` must be the run's name,
    which shows that a person has confirmed this; otherwise raises KernelBlasterError."""
    _confirmed(data, folder)
    now = data.get("now") is True
    stop_run(folder, now=now, by=BY)
    return {"done": "It was stopped." if now else "It will stop before its next candidate."}


def steer_search(dashboard: Dashboard, folder: Path, data: dict[str, Any]) -> dict[str, Any]:
    """Asks the running search of the run in `folder`, which `dashboard` serves, for what `data` says: new
    limits ("budget" in candidates, "seconds", "gpu_seconds"); lists of techniques to try first ("pin"), not
    to try ("forbid") or to treat as any other again ("release"); a text for the language model ("note"; with
    "standing": for all further questions). Raises KernelBlasterError for values that are not allowed, or if
    nothing is asked for."""
    commands = steer_run(
        folder,
        budget=_number(data, "budget", whole=True),  # type: ignore[arg-type]
        seconds=_number(data, "seconds"),
        gpu_seconds=_number(data, "gpu_seconds"),
        pin=_names(data, "pin"),
        forbid=_names(data, "forbid"),
        release=_names(data, "release"),
        note=_text(data, "note"),
        standing=data.get("standing") is True,
        by=BY,
    )
    if not commands:
        raise KernelBlasterError("Nothing was asked for.")
    words = "; ".join(describe_action(one.action) for one in commands)
    return {"done": f"Asked: {words}", "commands": [one.model_dump(mode="json") for one in commands]}


def resume_search(dashboard: Dashboard, folder: Path, data: dict[str, Any]) -> dict[str, Any]:
    """Continues the search of the run in `folder`, which `dashboard` serves, in a process of its own. `usd`
    and `tokens` in `data` are new budgets for language models. `data["confirm"]` must be the run's name,
    which shows that a person has confirmed this; otherwise raises KernelBlasterError."""
    _confirmed(data, folder)
    tokens = _number(data, "tokens", whole=True)
    pid = dashboard.resumed.start(folder, _number(data, "usd"), None if tokens is None else int(tokens))
    return {"done": f"Process {pid} goes on with it."}


ACTIONS: dict[str, RunAction] = {"stop": stop_search, "steer": steer_search, "resume": resume_search}


def _confirmed(data: dict[str, Any], folder: Path) -> None:
    """Checks that a person has confirmed the request: its data must have the run's name (that of `folder`)
    under `confirm`. Raises KernelBlasterError if not."""
    if data.get("confirm") != folder.name:
        raise KernelBlasterError("Not confirmed: nothing was done.")


def _number(data: dict[str, Any], name: str, *, whole: bool = False) -> float | int | None:
    """The positive number under `name` in a request's data; None if it is missing or empty. Raises
    KernelBlasterError if it is anything else; with `whole`, also if it is no whole number."""
    value = data.get(name)
    if value is None or value == "":
        return None
    kinds = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not isfinite(value) or value <= 0:
        raise KernelBlasterError(f"{name}: give a positive {'whole ' if whole else ''}number.")
    return value


def _names(data: dict[str, Any], name: str) -> list[str]:
    """The list of names under `name` in a request's data; empty if it is missing. Raises KernelBlasterError
    if it is anything else, or too long."""
    value = data.get(name) or []
    if not isinstance(value, list) or len(value) > MOST_TECHNIQUES:
        raise KernelBlasterError(f"{name}: give a list of at most {MOST_TECHNIQUES} names.")
    if not all(isinstance(one, str) for one in value):
        raise KernelBlasterError(f"{name}: give names.")
    return value


def _text(data: dict[str, Any], name: str) -> str | None:
    """The text under `name` in a request's data, stripped; None if it is empty or missing. Raises
    KernelBlasterError if it is anything else."""
    value = data.get(name)
    if value is not None and not isinstance(value, str):
        raise KernelBlasterError(f"{name}: give a text.")
    return value.strip() or None if value else None
