"""Questions of a search reach one agent each, and answers reach the search."""

import asyncio
import threading
from pathlib import Path

import pytest
from pydantic import BaseModel

from kernelblaster.errors import KernelBlasterError
from kernelblaster.mcp import questions
from kernelblaster.mcp.questions import Questions
from kernelblaster.models.handoff import HandOff
from kernelblaster.models.request import ChatMessage, Request


class Draft(BaseModel):
    source: str


def request(text: str) -> Request[Draft]:
    return Request(role="lowerer", messages=(ChatMessage(speaker="user", text=text),), schema=Draft)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(questions, "READ_S", 0.4)
    monkeypatch.setattr(questions, "PAUSE_S", 0.02)
    return tmp_path / "questions"


def ask(folder: Path, text: str) -> tuple[threading.Thread, list[str]]:
    """A search that asks one question, in a thread, and what it was answered."""
    answers: list[str] = []
    model = HandOff(folder, say=lambda words: None, poll_s=0.02)
    thread = threading.Thread(target=lambda: answers.append(model.answer(request(text)).text), daemon=True)
    thread.start()
    return thread, answers


def test_two_agents_get_two_questions_and_the_search_both_answers(folder: Path) -> None:
    searches = [ask(folder, "one"), ask(folder, "two")]
    asked = Questions(folder)

    async def agents() -> None:
        mine, other = await asked.following(5), await asked.following(5)
        assert mine and other and mine["question"] != other["question"]
        assert {"one", "two"} == {q["prompt"].split("\n")[2] for q in (mine, other)}
        assert "answer.json" not in mine["prompt"] and mine["answer_schema"]["required"] == ["source"]
        assert await asked.following(0) is None  # both are being answered
        with pytest.raises(KernelBlasterError, match="'source' is a required property"):
            await asked.answer(mine["question"], {"x": 1})
        with pytest.raises(KernelBlasterError, match="no such question"):
            await asked.answer("../../etc", {"source": ""})
        for question in (mine, other):
            await asked.answer(question["question"], {"source": "__global__"})
        with pytest.raises(KernelBlasterError, match="has an answer already"):
            await asked.answer(mine["question"], {"source": "again"})

    asyncio.run(agents())
    for thread, answers in searches:
        thread.join(5)
        assert answers == ['{"source": "__global__"}']
    assert asked.waiting == 0


def test_a_question_that_nobody_answers_goes_to_another(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(folder, "one")

    async def resumed() -> None:
        first = await Questions(folder).following(5)
        assert first and await Questions(folder).following(0) is None
        Questions(folder).unclaim()
        again = await Questions(folder).following(0)
        assert again and again["question"] == first["question"]

    asyncio.run(resumed())
    monkeypatch.setattr(questions, "CLAIMED_S", 0.05)

    async def agents() -> None:
        first = await Questions(folder).following(5)
        second = await Questions(folder).following(5)
        assert first and second and first["question"] == second["question"]

    asyncio.run(agents())
