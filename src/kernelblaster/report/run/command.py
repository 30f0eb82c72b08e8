"""The commands that repeat a run, go on with it, or use what it found."""

import shlex
from pathlib import Path
from typing import Any

from kernelblaster.knowledge.address import is_url, knowledge_at
from kernelblaster.sessions.settings import Search

OPTIONS = {
    "evaluations": "--budget",
    "wall_seconds": "--seconds",
    "gpu_seconds": "--gpu-seconds",
    "iterations": "--iterations",
    "rollouts": "--rollouts",
    "steps": "--steps",
    "choices": "--choices",
    "selection": "--selection",
    "seed": "--seed",
}


def repeating(about: dict[str, Any]) -> str:
    """`optimize` with the options that this run had, from its first event; those that have their usual value
    are left out. There is no password in it."""
    words = ["kernelblaster", "optimize", _word(str(about.get("task", "TASK")))]
    for name, option in (("device", "--device"), ("gpu", "--gpu"), ("dtype", "--dtype")):
        if about.get(name) and about[name] != "auto":
            words += [option, _word(str(about[name]))]
    words += _search(about.get("search") or {})
    words += _models(about.get("models") or {})
    if about.get("kb") and about["kb"] != knowledge_at(None):
        words += ["--kb", _word(str(about["kb"]))]
    return " ".join(words)


def _search(search: dict[str, Any]) -> list[str]:
    usual = Search().model_dump()
    found = []
    for name, option in OPTIONS.items():
        if name in search and search[name] != usual[name]:
            found += [option, _word(f"{search[name]:g}" if isinstance(search[name], float) else search[name])]
    return found


def _models(models: dict[str, Any]) -> list[str]:
    choice, found = models.get("choice") or {}, []
    for name in ("model", "replay", "record", "prices"):
        if choice.get(name):
            found += [f"--{name}", _word(str(choice[name]))]
    for role in (*(models.get("roles") or ()), *(choice.get("roles") or ())):
        found += ["--role", _word(str(role))]
    for name, value in (choice.get("budget") or {}).items():
        if value is not None:
            found += [f"--{name}", str(value)]
    strategy = models.get("strategy")
    return found + (["--strategy", str(strategy)] if strategy and strategy != "maic-rl" else [])


def _word(text: Any) -> str:
    """As a shell takes it; the user's own folder is written `~`, whoever reads the page."""
    home = f"{Path.home()}/"
    if isinstance(text, str) and text.startswith(home) and not is_url(text):
        return "~/" + shlex.quote(text.removeprefix(home))
    return shlex.quote(str(text))
