"""Asks the language model in a role (a kind of question, such as the proposer's); every question and answer
is recorded in the run's log before it is used, so that a resumed run asks nothing twice."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from kernelblaster.models.failures import BadAnswer
from kernelblaster.models.request import ChatMessage, Model, Request
from kernelblaster.models.tokens import tokens_of
from kernelblaster.policies.llm.data import INVISIBLE
from kernelblaster.policies.llm.prompt import PromptTooLong, Sections, less_room, render
from kernelblaster.policies.llm.roles import TOKENS, Role
from kernelblaster.sessions.steering import Steering
from kernelblaster.store.steering import LeaveNote

T = TypeVar("T", bound=BaseModel)
Once = Callable[[str, str, Callable[[], dict[str, Any]]], dict[str, Any]]
QUESTION, ANSWER = "question", "answer"  # the kinds of a run's events that hold them
NOTED: tuple[Role, ...] = ("initial-writer", "proposer", "lowerer")  # who is shown the notes of people


@dataclass(frozen=True)
class Question(Generic[T]):
    """One question to the language model in a `role`, a kind of question such as the proposer's. The
    `template` filled with `sections` is the user's message, `system` the system message, `schema` the type of
    the answer. `key` identifies it within run and role: if the run has an answer recorded under that key, it
    is reused, even if the prompt would now read differently. `seed` asks for another answer to the same
    prompt; `prompt_tokens` overrides the role's limit. `notes` are texts that people left for the run, added
    at the end."""

    role: Role
    key: str
    system: str
    template: str
    sections: Sections
    schema: type[T]
    seed: int = 0
    prompt_tokens: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name, `ROLE/KEY`, under which question and answer are recorded in the run's log."""
        return f"{self.role}/{self.key}"


class Asker:
    """Asks the `model` the questions of one `task` of one run. `once(kind, key, make)` is the run's log: it
    returns the data recorded under that kind and key, or calls `make` and records what it returns, so that a
    resumed run asks nothing twice. Notes that people left (`steering`) are added to new questions of the
    initial writer, the proposer and the lowerer (NOTED)."""

    def __init__(self, model: Model, once: Once, task: str, steering: Steering | None = None) -> None:
        self._model = model
        self._once = once
        self._task = task
        self._steering = steering
        self._failed: dict[str, tuple[Role, str]] = {}

    @property
    def failures(self) -> Counter[tuple[Role, str]]:
        """The number of questions without a usable answer that this process has asked or found recorded, by
        (role, reason), where the reason is an error's name such as `PromptTooLong`."""
        return Counter(self._failed.values())

    def ask(self, question: Question[T]) -> T | None:
        """The model's answer to the question, recorded or asked for now. None if there is no usable one
        (refused, empty, too long, malformed twice, or the prompt does not fit); such failures are recorded
        too and counted in `failures`. Raises a `ModelError` if the model cannot be asked at all."""
        recorded = self._once(ANSWER, question.name, lambda: self._asked(question))
        if recorded["answer"] is None:
            self._failed[question.name] = (question.role, recorded["failure"])
            return None
        return question.schema.model_validate(recorded["answer"])

    def prompt(self, question: Question[T]) -> str:
        """The user's message of this question: the recorded one if the run has asked it before, else
        rendered from its template and recorded now. Raises `PromptTooLong` if it does not fit into the
        tokens that the role may use, even after shortening."""
        recorded = self._once(QUESTION, question.name, lambda: self._new_question(question))
        return str(recorded["messages"][-1]["text"])

    def _new_question(self, question: Question[T]) -> dict[str, Any]:
        """The event to record for a question that is asked now: its `messages`, and the ids of the people's
        `notes` in them, if there are any; these notes are marked as shown."""
        notes = self._steering.notes if self._steering and question.role in NOTED else ()
        if not notes:
            return {"messages": _messages(question)}
        ids = [note.id for note in notes]
        texts = [note.action.text for note in notes if isinstance(note.action, LeaveNote)]
        noted = replace(question, notes=tuple(texts))
        event = {"messages": _messages(noted), "notes": ids}
        assert self._steering is not None
        self._steering.show(ids)
        return event

    def _asked(self, question: Question[T]) -> dict[str, Any]:
        """Asks the model the question and returns the data to record in the run's log: `answer` as JSON data
        with the model and the number of calls, or `answer` None with `failure` (the error's name) and
        `why`."""
        try:
            request = request_of(question, self._task, self.prompt(question))
            reply = self._model.ask(request)
        except PromptTooLong as error:
            return {"answer": None, "failure": "PromptTooLong", "why": str(error)}
        except BadAnswer as error:
            return {"answer": None, "failure": type(error).__name__, "why": str(error)[:500]}
        about = {"model": reply.model, "calls": reply.calls, "request": request.digest}
        return {"answer": reply.value.model_dump(mode="json"), **about}


def request_of(question: Question[T], task: str = "", prompt: str | None = None) -> Request[T]:
    """The question as a request to a model. `task` is its label in the ledger of costs. `prompt` is the
    user's message; if it is None, the message is rendered from the template, which raises `PromptTooLong` if
    it does not fit into the role's tokens."""
    text = _rendered(question) if prompt is None else prompt
    return Request(
        role=question.role,
        messages=(
            ChatMessage(speaker="system", text=question.system),
            ChatMessage(speaker="user", text=text),
        ),
        schema=question.schema,
        output_limit=TOKENS[question.role].answer,
        seed=question.seed,
        task=task,
        step=question.key,
    )


def _messages(question: Question[T]) -> list[dict[str, Any]]:
    """The system and the user message of a question as JSON data, rendered from its template. Raises
    `PromptTooLong` if they do not fit into the role's tokens."""
    return [message.model_dump(mode="json") for message in request_of(question).messages]


def _rendered(question: Question[T]) -> str:
    """The user's message of the question: its template filled with its sections, and the notes that people
    left, shortened to the role's token limits. Raises `PromptTooLong` if it cannot be shortened enough."""
    room = question.prompt_tokens or TOKENS[question.role].room
    if not question.notes:
        return render(question.template, question.role, room, question.sections)
    shown = "\n\n".join(INVISIBLE.sub("", note).strip() for note in question.notes)
    notes = render("notes.md", question.role, room, {"notes": shown})
    left = less_room(room, tokens_of(notes))
    return f"{render(question.template, question.role, left, question.sections)}\n{notes}"
