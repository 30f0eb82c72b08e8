"""Asking the model in a role: every question and every answer is recorded before it is used."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from kernelblaster.models.failures import BadAnswer
from kernelblaster.models.request import ChatMessage, Model, Request
from kernelblaster.policies.llm.prompt import PromptTooLong, Sections, render
from kernelblaster.policies.llm.roles import TOKENS, Role

T = TypeVar("T", bound=BaseModel)
Once = Callable[[str, str, Callable[[], dict[str, Any]]], dict[str, Any]]
QUESTION, ANSWER = "question", "answer"  # the kinds of a run's events that hold them


@dataclass(frozen=True)
class Question(Generic[T]):
    """One question of a role. `key` tells it from the others of this run and role: what was asked and
    answered under it stays, however the prompt would read by now. `prompt_tokens` overrides the role's
    own room."""

    role: Role
    key: str
    system: str
    template: str
    sections: Sections
    schema: type[T]
    seed: int = 0
    prompt_tokens: int | None = None

    @property
    def name(self) -> str:
        return f"{self.role}/{self.key}"


class Asker:
    """The model, for one task of one run."""

    def __init__(self, model: Model, once: Once, task: str) -> None:
        self._model = model
        self._once = once
        self._task = task
        self._failed: dict[str, tuple[Role, str]] = {}

    @property
    def failures(self) -> Counter[tuple[Role, str]]:
        """How many questions had no usable answer, by role and reason."""
        return Counter(self._failed.values())

    def ask(self, question: Question[T]) -> T | None:
        """The answer; None where there is none that can be used (refused, empty, too long, not of its
        form after a second try, or a question that does not fit its room), which is counted. Raises a
        `ModelError` where the model cannot be asked at all."""
        found = self._once(ANSWER, question.name, lambda: self._asked(question))
        if found["answer"] is None:
            self._failed[question.name] = (question.role, found["failure"])
            return None
        return question.schema.model_validate(found["answer"])

    def prompt(self, question: Question[T]) -> str:
        """What was asked, as it was when it was asked first. Raises `PromptTooLong`."""
        found = self._once(QUESTION, question.name, lambda: {"messages": _messages(question)})
        return str(found["messages"][-1]["text"])

    def _asked(self, question: Question[T]) -> dict[str, Any]:
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
    """The question as a model gets it; the prompt is rendered unless it is given. Raises
    `PromptTooLong`."""
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
    return [message.model_dump(mode="json") for message in request_of(question).messages]


def _rendered(question: Question[T]) -> str:
    room = question.prompt_tokens or TOKENS[question.role].room
    return render(question.template, question.role, room, question.sections)
