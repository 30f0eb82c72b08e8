"""Lets agents answer in place of a search's language model: hands out its questions one by one, and takes the
answers.

Each question is a folder with a prompt and a schema, in which an answer is awaited (the hand-off,
models/handoff.py). So the search can be stopped and resumed, and several agents can answer for one search.
"""

import asyncio
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import jsonschema

from kernelblaster.errors import KernelBlasterError
from kernelblaster.mcp.setup import LONGEST_REPLY, LONGEST_SOURCE, LONGEST_WAIT_S
from kernelblaster.models.handoff import HOW, PROBLEM
from kernelblaster.plain_text import printable
from kernelblaster.store.files import write_whole
from kernelblaster.strict_json import parse_json, read_bounded

CLAIMED_S = 600.0  # that a question is left to the agent that got it
READ_S = 2.5  # in which a search has read an answer
PAUSE_S = 0.2
CLAIMS = ".claims"


class Questions:
    """The questions that one search asks agents; each is a folder in `folder`. A question that was handed to
    an agent is handed to no other one for ten minutes (CLAIMED_S)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def following(self, wait_s: float) -> dict[str, Any] | None:
        """Hands out the oldest question that has no usable answer and is not with another agent, as JSON
        data; it is then reserved for the caller. If there is none, waits up to `wait_s` seconds for one (at
        most 50, LONGEST_WAIT_S), then returns None."""
        until = time.monotonic() + min(wait_s, LONGEST_WAIT_S)
        while True:
            for folder in self._open():
                if self._claim(folder.name):
                    return _question(folder)
            if time.monotonic() >= until:
                return None
            await asyncio.sleep(PAUSE_S)

    async def answer(self, name: str, answer: dict[str, Any]) -> None:
        """Answers the question `name`, and waits 2.5 s (READ_S) for the search to read the answer. Raises
        KernelBlasterError if there is no such question without an answer, or if the answer cannot be used;
        its message says why, and the question can be answered again."""
        folder = next((one for one in self._all() if one.name == name), None)
        if folder is None:
            raise KernelBlasterError("there is no such question; next_question gives those that wait.")
        if folder not in self._open():
            raise KernelBlasterError("this question has an answer already; call next_question.")
        text = json.dumps(answer)
        if len(text) > LONGEST_SOURCE:
            raise KernelBlasterError(f"the answer has more than {LONGEST_SOURCE} characters.")
        _check(answer, folder)
        (folder / PROBLEM).unlink(missing_ok=True)
        write_whole(folder / "answer.json", text)
        until = time.monotonic() + READ_S
        while time.monotonic() < until:
            await asyncio.sleep(PAUSE_S)
            if (folder / PROBLEM).is_file():
                raise KernelBlasterError(f"{_problem(folder)} Answer the same question again.")

    def unclaim(self) -> None:
        """Makes all questions without an answer available again, also those that were handed to agents.
        Called when a search is resumed."""
        shutil.rmtree(self._folder / CLAIMS, ignore_errors=True)

    @property
    def waiting(self) -> int:
        """How many of the search's questions have no usable answer yet, whether an agent has got them or
        not."""
        return len(self._open())

    def _all(self) -> list[Path]:
        if not self._folder.is_dir():
            return []
        return sorted(one for one in self._folder.iterdir() if _is_question(one))

    def _open(self) -> list[Path]:
        """The folders of all questions that still need an answer: those that have none, or one that could not
        be used."""
        return [
            one for one in self._all() if not (one / "answer.json").is_file() or (one / PROBLEM).is_file()
        ]

    def _claim(self, name: str) -> bool:
        """Reserves the question `name` for the caller. Returns False if another agent got it less than
        CLAIMED_S seconds ago."""
        claims = self._folder / CLAIMS
        claims.mkdir(exist_ok=True)
        path = claims / name
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            return True
        except FileExistsError:
            pass
        try:
            old = time.time() - path.stat().st_mtime > CLAIMED_S
        except FileNotFoundError:
            return False
        if old:
            path.unlink(missing_ok=True)
        return old and self._claim(name)


def _is_question(folder: Path) -> bool:
    """Whether a folder holds a complete question. One that is still being written has a name that begins with
    a dot."""
    return not folder.name.startswith(".") and (folder / "prompt.md").is_file()


def _question(folder: Path) -> dict[str, Any]:
    """The question in a folder as JSON data for an agent: its name, role, prompt, the schema of the answer,
    and what was wrong with an earlier answer."""
    prompt = read_bounded(folder / "prompt.md", 1 << 20).decode().removesuffix(HOW)
    about = parse_json(read_bounded(folder / "about.json", 1 << 20))
    data = {
        "question": folder.name,
        "role": about.get("role", ""),
        "prompt": prompt[:LONGEST_REPLY],
        "answer_schema": parse_json(read_bounded(folder / "schema.json", 1 << 20)),
        "next": "Call answer with this question's name and one JSON object that fits answer_schema.",
    }
    return data | ({"problem": _problem(folder)} if (folder / PROBLEM).is_file() else {})


def _problem(folder: Path) -> str:
    return printable(read_bounded(folder / PROBLEM, 1 << 16).decode(errors="replace")).strip()


def _check(answer: dict[str, Any], folder: Path) -> None:
    """Checks an agent's answer against the JSON schema in the question's folder. Raises KernelBlasterError,
    which names the first place that does not fit."""
    schema = parse_json(read_bounded(folder / "schema.json", 1 << 20))
    found = jsonschema.Draft202012Validator(schema).iter_errors(answer)
    worst = jsonschema.exceptions.best_match(found)
    if worst is not None:
        where = worst.json_path
        raise KernelBlasterError(f"the answer does not fit: {where}: {worst.message[:500]}. Answer again.")
