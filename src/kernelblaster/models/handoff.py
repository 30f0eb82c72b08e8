"""Hand-off: instead of a language model's server, a person or another program answers. Each request is
written to files in a folder, and the answer is read from a file there."""

import contextlib
import json
import re
import secrets
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernelblaster.models.answer_parser import read
from kernelblaster.models.failures import BadAnswer, Malformed, ModelError
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
    """An endpoint (source of unparsed answers) whose answers come from a person or another program. Each
    request becomes a subfolder of `folder`, with the prompt and the schema; `answer` waits, without a time
    limit, until a usable answer.json is in it. One that is there already is used at once, so that a stopped
    run can continue. `say` is called with a line for the user when an answer is awaited; the subfolder is
    checked every `poll_s` seconds."""

    def __init__(self, folder: Path, *, say: Callable[[str], None], poll_s: float = POLL_S) -> None:
        self.folder = folder
        self._say = say
        self._poll_s = poll_s
        self._lock = threading.Lock()

    def answer(self, request: Request[T]) -> ModelAnswer:
        try:
            with self._lock:
                folder = self._existing(request) or self._ask(request)
            return self._await(request, folder)
        except OSError as error:
            raise ModelError(f"{self.folder}: {error.strerror or error}") from error

    def _existing(self, request: Request[T]) -> Path | None:
        """The folder of an equal request that was made before, with or without an answer; None if there is
        none."""
        return next(self.folder.glob(f"*-{request.digest}"), None)

    def _ask(self, request: Request[T]) -> Path:
        """Make the folder of a request, named by number, role (kind of question) and digest, with prompt.md,
        schema.json and about.json, and return its path. The folder appears under its name only once it is
        complete."""
        self.folder.mkdir(parents=True, exist_ok=True)
        number = 1 + sum(1 for folder in self.folder.iterdir() if re.match(r"\d+-", folder.name))
        folder = self.folder / f"{number:04}-{request.role}-{request.digest}"
        scratch = self.folder / f".new-{secrets.token_hex(8)}"
        scratch.mkdir(mode=0o755)
        try:
            (scratch / "prompt.md").write_text(_prompt(request))
            (scratch / "schema.json").write_text(json.dumps(request.json_schema, indent=1) + "\n")
            (scratch / "about.json").write_text(json.dumps(_about(request), indent=1) + "\n")
            scratch.rename(folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return folder

    def _await(self, request: Request[T], folder: Path) -> ModelAnswer:
        """Wait in `folder` for a usable answer and return it. Files are read once they have not changed for
        one poll. An unusable answer is reported in problem.md; then the wait goes on until files change."""
        announced, wrong, before = False, None, _files(folder)
        while True:
            now = _files(folder)
            if "answer.json" in now and now == before and now != wrong:
                try:
                    return _usable(request, folder)
                except BadAnswer as bad:
                    wrong = now
                    problem = bad.problem if isinstance(bad, Malformed) else str(bad)
                    _replace(folder / PROBLEM, f"`answer.json` cannot be used: {problem}.\n")
                    self._say(f"{folder / PROBLEM}: the answer cannot be used; waiting for another")
            if not announced:
                self._say(f"{folder}: read prompt.md there, and write answer.json; waiting")
                announced = True
            before = now
            time.sleep(self._poll_s)


def _prompt(request: Request[T]) -> str:
    """The text that a person reads to answer a request: all messages as Markdown, then how to write the
    answer."""
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


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    """(time of writing in ns, size in bytes) of each file in a folder by name, without the report
    problem.md."""
    status_of = {}
    for file in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            status = file.stat()
            status_of[file.name] = (status.st_mtime_ns, status.st_size)
    return {name: status for name, status in status_of.items() if name.lstrip(".") != PROBLEM}


def _usable(request: Request[T], folder: Path) -> ModelAnswer:
    """The answer in a request's folder; problem.md is removed. Raises BadAnswer if the answer does not fit
    the request."""
    answer = _answer(folder)
    read(request, answer)
    (folder / PROBLEM).unlink(missing_ok=True)
    return answer


def _answer(folder: Path) -> ModelAnswer:
    """The content of answer.json in a request's folder, with strings "@file:NAME" replaced by those files;
    unchanged if it is not JSON. Raises Malformed if the file is too large or a named file is missing."""
    plain = ModelAnswer(text="", stop="done", model="handoff", usage=None)
    try:
        data = read_bounded(folder / "answer.json", LARGEST_ANSWER_BYTES)
    except InvalidJson as error:
        raise Malformed(f"it {error}", plain) from None
    plain = plain.model_copy(update={"text": data.decode(errors="replace")})
    try:
        value = parse_json(data)
    except InvalidJson:
        return plain
    return plain.model_copy(update={"text": json.dumps(_filled(value, folder, plain))})


def _filled(value: Any, folder: Path, answer: ModelAnswer) -> Any:
    """The JSON value with every string "@file:NAME" replaced by the text of that file in the folder. Raises
    Malformed, which carries `answer`, if there is no such text file in the folder."""
    if isinstance(value, dict):
        return {key: _filled(part, folder, answer) for key, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, folder, answer) for part in value]
    if not isinstance(value, str) or not value.startswith(FILE):
        return value
    name = value.removeprefix(FILE).strip()
    if name != Path(name).name:
        raise Malformed(f"{value}: only files in this folder can be named", answer)
    try:
        return read_bounded(folder / name, LARGEST_ANSWER_BYTES).decode()
    except (OSError, ValueError):
        raise Malformed(f"{value}: there is no such text file in this folder", answer) from None


def _replace(file: Path, text: str) -> None:
    """Writes a file so that readers see the old content or the new one, never a part."""
    scratch = file.with_name(f".{file.name}")
    scratch.write_text(text)
    scratch.replace(file)
