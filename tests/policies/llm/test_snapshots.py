"""Prompts as they are, for people to read: a change of one shows in its file under prompts/.

python -m tests.policies.llm.test_snapshots    writes them again
"""

from pathlib import Path

import pytest

from kernelblaster.models.request import Request
from kernelblaster.policies.llm.roles import ROLES
from tests.policies.llm.questions import questions
from tests.policies.llm.scenes import relu

PROMPTS = Path(__file__).parent / "prompts"


def text_of(request: Request[object]) -> str:
    return "\n----\n\n".join(f"{message.text.strip()}\n" for message in request.messages)


@pytest.mark.parametrize("name", sorted([*ROLES, "mend", "minimal", "cycles-only"]))
def test_prompts_are_as_recorded(name: str) -> None:
    assert text_of(questions(relu()[0])[name]) == (PROMPTS / f"{name}.md").read_text()


def test_asking_twice_is_the_same_question() -> None:
    one, other = (questions(relu()[0]) for _ in range(2))
    assert {name: r.digest for name, r in one.items()} == {name: r.digest for name, r in other.items()}


if __name__ == "__main__":
    PROMPTS.mkdir(exist_ok=True)
    for name, request in questions(relu()[0]).items():
        (PROMPTS / f"{name}.md").write_text(text_of(request))
