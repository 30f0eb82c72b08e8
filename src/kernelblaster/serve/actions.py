"""What a page may ask of a run: each action is a call of the public API with what the request says."""

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
    """Stop a search: `now` interrupts its process."""
    _confirmed(data, folder)
    now = data.get("now") is True
    stop_run(folder, now=now, by=BY)
    return {"done": "It was stopped." if now else "It will stop before its next candidate."}


def steer_search(dashboard: Dashboard, folder: Path, data: dict[str, Any]) -> dict[str, Any]:
    """Change the limits of a search, pin, forbid or release techniques, leave a note."""
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
    """Go on with a run in a process of its own."""
    _confirmed(data, folder)
    tokens = _number(data, "tokens", whole=True)
    pid = dashboard.resumed.start(folder, _number(data, "usd"), None if tokens is None else int(tokens))
    return {"done": f"Process {pid} goes on with it."}


ACTIONS: dict[str, RunAction] = {"stop": stop_search, "steer": steer_search, "resume": resume_search}


def _confirmed(data: dict[str, Any], folder: Path) -> None:
    """Raise KernelBlasterError unless the request names the run, as a page does once a person has
    confirmed."""
    if data.get("confirm") != folder.name:
        raise KernelBlasterError("Not confirmed: nothing was done.")


def _number(data: dict[str, Any], name: str, *, whole: bool = False) -> float | int | None:
    """A positive number of a request; None if it is not there. Raises KernelBlasterError if it is none."""
    value = data.get(name)
    if value is None or value == "":
        return None
    kinds = (int,) if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not isfinite(value) or value <= 0:
        raise KernelBlasterError(f"{name}: give a positive {'whole ' if whole else ''}number.")
    return value


def _names(data: dict[str, Any], name: str) -> list[str]:
    """A list of names of a request; empty if it is not there. Raises KernelBlasterError if it is none."""
    value = data.get(name) or []
    if not isinstance(value, list) or len(value) > MOST_TECHNIQUES:
        raise KernelBlasterError(f"{name}: give a list of at most {MOST_TECHNIQUES} names.")
    if not all(isinstance(one, str) for one in value):
        raise KernelBlasterError(f"{name}: give names.")
    return value


def _text(data: dict[str, Any], name: str) -> str | None:
    """A text of a request; None if it is empty or not there. Raises KernelBlasterError if it is none."""
    value = data.get(name)
    if value is not None and not isinstance(value, str):
        raise KernelBlasterError(f"{name}: give a text.")
    return value.strip() or None if value else None
