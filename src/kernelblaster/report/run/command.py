"""`repeat_command`: the shell command that repeats a run."""

import shlex
from pathlib import Path
from typing import Any

from kernelblaster.knowledge.address import knowledge_at
from kernelblaster.passwords import is_url
from kernelblaster.sessions.settings import Search
from kernelblaster.store.history import written_by_others

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


def repeat_command(about: dict[str, Any]) -> str:
    """The shell command that repeats a run: `kernelblaster optimize ...`, or `evaluate` of a file where no
    search wrote the candidates. `about` is the data of the run's first event; options with default values are
    left out, passwords were never recorded."""
    task = _word(str(about.get("task", "TASK")))
    searched = not written_by_others(about)
    words = ["kernelblaster", *(["optimize", task] if searched else ["evaluate", task, "best.cu"])]
    for name, option in (("device", "--device"), ("gpu", "--gpu"), ("dtype", "--dtype")):
        if about.get(name) and about[name] != "auto":
            words += [option, _word(str(about[name]))]
    if not searched:
        return " ".join(words)
    words += _search(about.get("search") or {})
    words += _models(about.get("models") or {})
    if about.get("kb") and about["kb"] != knowledge_at(None):
        words += ["--kb", _word(str(about["kb"]))]
    return " ".join(words)


def _search(search: dict[str, Any]) -> list[str]:
    """The words of a command line that set the recorded search settings which are not the defaults."""
    usual = Search().model_dump()
    words = []
    for name, option in OPTIONS.items():
        if name in search and search[name] != usual[name]:
            words += [option, _word(f"{search[name]:g}" if isinstance(search[name], float) else search[name])]
    return words


def _models(models: dict[str, Any]) -> list[str]:
    """The words of a command line that choose the recorded language models with roles and budgets; empty if
    no model took part."""
    choice, words = models.get("choice") or {}, []
    for name in ("model", "replay", "record", "prices"):
        if choice.get(name):
            words += [f"--{name}", _word(str(choice[name]))]
    for role in (*(models.get("roles") or ()), *(choice.get("roles") or ())):
        words += ["--role", _word(str(role))]
    for name, value in (choice.get("budget") or {}).items():
        if value is not None:
            words += [f"--{name}", str(value)]
    strategy = models.get("strategy")
    return words + (["--strategy", str(strategy)] if strategy and strategy != "maic-rl" else [])


def _word(text: Any) -> str:
    """A value as one word of a shell command, quoted where necessary; the user's home folder is written
    `~`."""
    home = f"{Path.home()}/"
    if isinstance(text, str) and text.startswith(home) and not is_url(text):
        return "~/" + shlex.quote(text.removeprefix(home))
    return shlex.quote(str(text))
