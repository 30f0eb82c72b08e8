"""A person, or a program without any key, plays the model: questions and answers are files in a folder."""

import contextlib
import json
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernelblaster.models.failures import BadAnswer, Malformed, ModelError
from kernelblaster.models.reading import read
from kernelblaster.models.request import ModelAnswer, Request, T
from kernelblaster.strict_json import InvalidJson, parse_json, read_bounded

POLL_S = 0.5
FILE = "@file:"
LARGEST_ANSWER_BYTES = 8 << 20
PROBLEM = "problem.md"
HOW = """
---

# How to answer
Write `answer.json` into this folder: one JSON object that fits `schema.json`. A long text, such as a source
file, need not be inside it: write the text to a file in this folder, and give `"@file:NAME"` as the string,
wherever one stands, inside of lists too. What the schema does not require may be left out.
Everything needed is above. If the answer cannot be used, `problem.md` will say why; correct it then.
"""


class HandOff:
    """Every question is a folder; `answer` waits until the answer is in it. One that is there already is
    taken at once, so a run that was stopped goes on where it was."""

    def __init__(self, folder: Path, *, say: Callable[[str], None], poll_s: float = POLL_S) -> None:
        self.folder = folder
        self._say = say
        self._poll_s = poll_s
        self._lock = threading.Lock()

    def answer(self, request: Request[T]) -> ModelAnswer:
        try:
            with self._lock:
                place = self._existing(request) or self._ask(request)
            return self._await(request, place)
        except OSError as error:
            raise ModelError(f"{self.folder}: {error.strerror or error}") from error

    def _existing(self, request: Request[T]) -> Path | None:
        return next(self.folder.glob(f"*-{request.digest}"), None)

    def _ask(self, request: Request[T]) -> Path:
        """A new folder, named by its number, the role and the question. It appears when it is complete."""
        self.folder.mkdir(parents=True, exist_ok=True)
        number = 1 + sum(1 for place in self.folder.iterdir() if re.match(r"\d+-", place.name))
        place = self.folder / f"{number:04}-{request.role}-{request.digest}"
        scratch = Path(tempfile.mkdtemp(prefix=".new-", dir=self.folder))
        try:
            (scratch / "prompt.md").write_text(_prompt(request))
            (scratch / "schema.json").write_text(json.dumps(request.json_schema, indent=1) + "\n")
            (scratch / "about.json").write_text(json.dumps(_about(request), indent=1) + "\n")
            scratch.chmod(0o755)
            scratch.rename(place)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return place

    def _await(self, request: Request[T], place: Path) -> ModelAnswer:
        """Files are looked at when they have stopped changing; those that were wrong, when they change."""
        told, wrong, before = False, None, _files(place)
        while True:
            now = _files(place)
            if "answer.json" in now and now == before and now != wrong:
                try:
                    return _usable(request, place)
                except BadAnswer as bad:
                    wrong = now
                    problem = bad.problem if isinstance(bad, Malformed) else str(bad)
                    _replace(place / PROBLEM, f"`answer.json` cannot be used: {problem}.\n")
                    self._say(f"{place / PROBLEM}: the answer cannot be used; waiting for another")
            if not told:
                self._say(f"{place}: read prompt.md there, and write answer.json; waiting")
                told = True
            before = now
            time.sleep(self._poll_s)


def _prompt(request: Request[T]) -> str:
    titles = {"system": "Your part", "user": "The question", "assistant": "What you answered"}
    parts = [f"# {titles[message.speaker]}\n\n{message.text.strip()}\n" for message in request.messages]
    return "\n".join(parts) + HOW


def _about(request: Request[T]) -> dict[str, Any]:
    return {
        "role": request.role,
        "task": request.task,
        "step": request.step,
        "request": request.digest,
        "output_limit_tokens": request.output_limit,
        "asked": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _files(place: Path) -> dict[str, tuple[int, int]]:
    """When each file was written and its size; not what was said about them."""
    found = {}
    for file in place.iterdir():
        with contextlib.suppress(FileNotFoundError):
            status = file.stat()
            found[file.name] = (status.st_mtime_ns, status.st_size)
    return {name: status for name, status in found.items() if name.lstrip(".") != PROBLEM}


def _usable(request: Request[T], place: Path) -> ModelAnswer:
    answer = _answer(place)
    read(request, answer)
    (place / PROBLEM).unlink(missing_ok=True)
    return answer


def _answer(place: Path) -> ModelAnswer:
    plain = ModelAnswer(text="", stop="done", model="handoff", usage=None)
    try:
        data = read_bounded(place / "answer.json", LARGEST_ANSWER_BYTES)
    except InvalidJson as error:
        raise Malformed(f"it {error}", plain) from None
    plain = plain.model_copy(update={"text": data.decode(errors="replace")})
    try:
        value = parse_json(data)
    except InvalidJson:
        return plain
    return plain.model_copy(update={"text": json.dumps(_filled(value, place, plain))})


def _filled(value: Any, place: Path, answer: ModelAnswer) -> Any:
    """The value with the texts of the files that it names."""
    if isinstance(value, dict):
        return {key: _filled(part, place, answer) for key, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, place, answer) for part in value]
    if not isinstance(value, str) or not value.startswith(FILE):
        return value
    name = value.removeprefix(FILE).strip()
    if name != Path(name).name:
        raise Malformed(f"{value}: only files in this folder can be named", answer)
    try:
        return read_bounded(place / name, LARGEST_ANSWER_BYTES).decode()
    except (OSError, ValueError):
        raise Malformed(f"{value}: there is no such text file in this folder", answer) from None


def _replace(file: Path, text: str) -> None:
    scratch = file.with_name(f".{file.name}")
    scratch.write_text(text)
    scratch.replace(file)
