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
    """One question to the language model. `role` says which kind of question it is, such as `proposer`. The
    system message is `system`; the user's message is the prompt template named `template` (a file in this
    folder), filled with `sections`. The model's answer is parsed to an object of the type `schema`. `key`
    identifies the question among those of its role in a run: an answer that the run has recorded under this
    key is used again, even if the prompt would now read differently. Questions that differ only in `seed` get
    independent answers. `prompt_tokens` is the limit of the prompt, None for the role's usual one. `notes`
    are texts that people wrote for the run; they are added at the end of the prompt."""

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
        """The name `ROLE/KEY` under which the question and its answer are recorded in the run's log."""
        return f"{self.role}/{self.key}"


class Asker:
    """Asks a language model the questions of one run about one task. `model` answers; `task` is the task's
    name, to which costs are booked. `once(kind, key, make)` reads and writes the run's log: it returns what
    is recorded under that kind and key; if nothing is, it calls `make`, records the result and returns it.
    `steering` holds the notes that people wrote for the run; they are added to new questions of the initial
    writer, the proposer and the lowerer (NOTED)."""

    def __init__(self, model: Model, once: Once, task: str, steering: Steering | None = None) -> None:
        self._model = model
        self._once = once
        self._task = task
        self._steering = steering
        self._failed: dict[str, tuple[Role, str]] = {}

    @property
    def failures(self) -> Counter[tuple[Role, str]]:
        """The number of questions without a usable answer, by (role, reason). The reason is the name of an
        error, such as `PromptTooLong`. Questions that this process asked and questions whose failure it found
        in the run's log both count."""
        return Counter(self._failed.values())

    def ask(self, question: Question[T]) -> T | None:
        """Returns the model's answer to the question: the one in the run's log if there is one, else the
        model is asked now and its answer is recorded. None if there is no usable answer: the model refused,
        its answer was empty, too long or twice malformed, or the prompt does not fit the role's limit. Such a
        failure is recorded too and counted in the attribute `failures`. Raises a `ModelError` if the model
        cannot be asked at all."""
        recorded = self._once(ANSWER, question.name, lambda: self._asked(question))
        if recorded["answer"] is None:
            self._failed[question.name] = (question.role, recorded["failure"])
            return None
        return question.schema.model_validate(recorded["answer"])

    def prompt(self, question: Question[T]) -> str:
        """Returns the user's message of this question: the one in the run's log if there is one, else the
        message is rendered from the template and recorded now. Raises `PromptTooLong` if it does not fit into
        the tokens that the role may use, even after everything optional was left out."""
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
    """Returns the question as a request that can be sent to a model. `task` is the task's name, under which
    the costs are booked. `prompt` is the user's message; if it is None, the message is rendered from the
    template. Raises `PromptTooLong` if it has more tokens than the role may use."""
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
