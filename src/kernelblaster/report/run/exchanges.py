"""Questions to language models in a run, and their answers."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernelblaster.policies.llm.asker import ANSWER, QUESTION
from kernelblaster.report.source import Language
from kernelblaster.store.events import RunEvent


@dataclass(frozen=True)
class Block:
    """A part of a model's answer as a page shows it: its `text`, how to colour that (`language`), and a
    `title`. All short fields of an answer are put together into one block without a title."""

    title: str
    text: str
    language: Language = "text"


@dataclass(frozen=True)
class ShownExchange:
    """One question to a language model with its answer, for display. `role` is the kind of question; `key`
    tells questions of one role apart. `prompts` are the messages as (speaker, text). `failure` says why there
    is no usable answer; empty if there is one. `load` is an address from which the page loads the texts when
    the reader unfolds them; empty if they are included here. `number` is that of the question's first event
    in the run's log."""

    role: str
    key: str
    prompts: list[tuple[str, str]]
    answer: list[Block]
    model: str
    failure: str
    load: str = ""
    number: int = 0

    @property
    def name(self) -> str:
        """`role/key`: the role that asked and the key of its question, as the run's log names question and
        answer."""
        return f"{self.role}/{self.key}"

    @property
    def about(self) -> str:
        return self.key.replace("/", ", ")


def exchanges_of(events: Sequence[RunEvent]) -> list[ShownExchange]:
    """Returns all questions to language models in a run's `events`, each with its answer if there is one, in
    the order of asking."""
    answers = {event.key: event.data for event in events if event.kind == ANSWER}
    asked = {event.key: event.data for event in events if event.kind == QUESTION}
    numbers = {event.key: event.number for event in reversed(events) if event.kind in (QUESTION, ANSWER)}
    keys = dict.fromkeys([*asked, *answers])
    return [replace(_exchange(key, asked.get(key), answers.get(key)), number=numbers[key]) for key in keys]


def _exchange(key: str, question: dict[str, Any] | None, answer: dict[str, Any] | None) -> ShownExchange:
    """The exchange recorded under `key` (role/key); `question` and `answer` are the data of its events, None
    if there is none."""
    role, _, rest = key.partition("/")
    messages = (question or {}).get("messages") or []
    said = (answer or {}).get("answer")
    failure = "" if answer else "not answered yet"
    if answer and said is None:
        failure = f"{answer.get('failure', 'no answer')}: {answer.get('why', '')}".rstrip(": ")
    return ShownExchange(
        role=role,
        key=rest,
        prompts=[(str(m.get("speaker", "")), str(m.get("text", ""))) for m in messages],
        answer=_blocks(said) if said is not None else [],
        model=str((answer or {}).get("model", "")),
        failure=failure,
    )


def _blocks(said: Any) -> list[Block]:
    """Splits a model's answer (JSON) for display: each text of several lines is a piece of its own, all other
    fields are one piece of JSON."""
    if not isinstance(said, dict):
        return [Block("", json.dumps(said, indent=1, ensure_ascii=False))]
    long = {name: value for name, value in said.items() if isinstance(value, str) and "\n" in value}
    rest = {name: value for name, value in said.items() if name not in long}
    blocks = [Block("", json.dumps(rest, indent=1, ensure_ascii=False))] if rest else []
    for name, value in long.items():
        blocks.append(Block(name, value, "cuda" if name == "source" else "text"))
    return blocks
