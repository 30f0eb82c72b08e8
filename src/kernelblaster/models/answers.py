"""Stores models' answers on disk, one file each, named by the digest of the request. The files serve as a
cache, and as a recording that can be replayed."""

import os
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from kernelblaster.models.failures import ModelError, NotRecorded
from kernelblaster.models.request import ChatMessage, Endpoint, ModelAnswer, Request, T
from kernelblaster.records.record import Record


class Recorded(Record):
    """A request and its answer as stored in a file. An equal request gets the same `answer` again. `role`,
    `task` and `step` are what `Replay` looks for if no equal request is stored. `messages` are only for
    people who read the file."""

    role: str
    task: str
    step: str
    messages: tuple[ChatMessage, ...]
    answer: ModelAnswer


class Answers:
    """A folder of models' stored answers, one file for each request, named by the request's digest. Many
    processes can use it at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, request: Request[T]) -> ModelAnswer | None:
        """Returns the stored answer to an equal request; None if there is none or its file is damaged. Raises
        ModelError if the file cannot be read."""
        try:
            text = self._file(request).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ModelError(f"{self._file(request)}: {error.strerror or error}") from error
        try:
            return Recorded.model_validate_json(text).answer
        except ValidationError:
            return None

    def all(self) -> Iterator[Recorded]:
        """Yields every request in the folder with its answer, in the order of file names. Damaged files are
        skipped."""
        for file in sorted(self.folder.glob("*.json")):
            with suppress(ValidationError, OSError):
                yield Recorded.model_validate_json(file.read_bytes())

    def has(self, request: Request[T]) -> bool:
        return self.find(request) is not None

    def keep(self, request: Request[T], answer: ModelAnswer) -> None:
        """Stores the answer to a request, in place of an earlier one; on return it is on the disk. Raises
        ModelError if it cannot be written."""
        record = Recorded(
            role=request.role, task=request.task, step=request.step, messages=request.messages, answer=answer
        )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.folder, prefix=".", delete=False) as file:
                file.write(record.model_dump_json(indent=1).encode())
                file.flush()
                os.fsync(file.fileno())
            Path(file.name).replace(self._file(request))
        except OSError as error:
            raise ModelError(
                f"{self.folder}: cannot keep an answer: {error.strerror or error}. Free some space, or name "
                "another folder."
            ) from error

    def _file(self, request: Request[T]) -> Path:
        return self.folder / f"{request.digest}.json"


class RecordingEndpoint:
    """An endpoint (source of unparsed answers) that returns the stored answer to a request if there is one.
    Otherwise it asks the inner `endpoint` and stores the answer in `answers` before it returns it."""

    def __init__(self, endpoint: Endpoint, answers: Answers) -> None:
        self._endpoint = endpoint
        self._answers = answers

    def answer(self, request: Request[T]) -> ModelAnswer:
        kept = self._answers.find(request)
        if kept is not None:
            return kept
        answer = self._endpoint.answer(request)
        self._answers.keep(request, answer)
        return answer


class Once:
    """An endpoint (source of unparsed answers) that passes equal requests to the inner `endpoint` one after
    the other, never at the same time. If the inner one stores answers, only the first of equal requests is
    sent to the model, and the others get its stored answer."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._lock = threading.Lock()
        self._busy: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def answer(self, request: Request[T]) -> ModelAnswer:
        with self._lock:
            busy = self._busy[request.digest]
        with busy:
            return self._endpoint.answer(request)


class Replay:
    """An endpoint (source of unparsed answers) that asks no model and gives recorded answers only. A request
    gets the answer recorded for an equal one. If there is none, it gets the answer recorded for the same role
    (kind of question), task and step, if exactly one is."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._by_step: defaultdict[tuple[str, str, str], list[ModelAnswer]] = defaultdict(list)
        for one in answers.all():
            self._by_step[one.role, one.task, one.step].append(one.answer)

    def answer(self, request: Request[T]) -> ModelAnswer:
        """Returns the recorded answer to this request. Raises NotRecorded if no equal request is recorded,
        and not exactly one for the same role, task and step."""
        answer = self._answers.find(request) or self._at(request)
        if answer is None:
            raise NotRecorded(
                f"{self._answers.folder}: has no answer for {request.role} ({request.digest}). The prompt, "
                "the schema or the seed is another one than when it was recorded; record again."
            )
        return answer

    def _at(self, request: Request[T]) -> ModelAnswer | None:
        """The only answer recorded for the request's role (kind of question), task and step; None if there is
        none or several."""
        same_step = self._by_step.get((request.role, request.task, request.step), [])
        return same_step[0] if request.step and len(same_step) == 1 else None
