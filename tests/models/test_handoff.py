"""Someone who only reads a folder can play the model."""

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kernelblaster.models.handoff import HandOff
from kernelblaster.models.request import Reply
from kernelblaster.models.validating_model import ValidatingModel
from tests.models.asked import QUESTION, Product, question


class Person:
    """Acts on what the hand-off says, one action after the other."""

    def __init__(self, folder: Path, *actions: Callable[[Path], object]) -> None:
        self.folder = folder
        self.actions = list(actions)
        self.heard: list[str] = []

    def hear(self, text: str) -> None:
        self.heard.append(text)
        if self.actions:
            (place,) = self.folder.iterdir()
            self.actions.pop(0)(place)


def writing(name: str, text: str) -> Callable[[Path], object]:
    return lambda place: (place / name).write_text(text)


def play(folder: Path, *actions: Callable[[Path], object]) -> tuple[Reply[Product], Person]:
    person = Person(folder, *actions)
    return ValidatingModel(HandOff(folder, say=person.hear, poll_s=0.01)).ask(QUESTION), person


def test_the_folder_says_all_that_is_needed(tmp_path: Path) -> None:
    reply, person = play(tmp_path, writing("answer.json", '{"product": 42}'))
    (place,) = tmp_path.iterdir()
    assert reply.value.product == 42 and reply.usage is None
    assert place.name == f"0001-lowerer-{QUESTION.digest}"
    prompt = (place / "prompt.md").read_text()
    assert "What is 6 times 7?" in prompt and "You multiply." in prompt and "answer.json" in prompt
    assert json.loads((place / "schema.json").read_text()) == QUESTION.json_schema
    assert json.loads((place / "about.json").read_text())["task"] == "multiply"
    assert str(place) in person.heard[0]


def test_an_answered_folder_is_used_at_once(tmp_path: Path) -> None:
    play(tmp_path, writing("answer.json", '{"product": 42}'))
    reply, person = play(tmp_path)
    assert reply.value.product == 42 and person.heard == []


def test_a_wrong_answer_is_explained_and_waited_for_again(tmp_path: Path) -> None:
    seen = []

    def correct(place: Path) -> None:
        seen.append((place / "problem.md").read_text())
        (place / "answer.json").write_text('{"product": 42}')

    reply, person = play(tmp_path, writing("answer.json", '{"product": "many"}'), correct)
    (place,) = tmp_path.iterdir()
    assert reply.value.product == 42 and reply.calls == 1
    assert "product" in seen[0] and not (place / "problem.md").exists()
    assert len(person.heard) == 2


def test_a_text_can_be_in_a_file_of_its_own(tmp_path: Path) -> None:
    source = 'int main() { return "x"[0]; }\n'

    def both(place: Path) -> None:
        (place / "kernel.cu").write_text(source)
        (place / "answer.json").write_text('{"product": 42, "remark": "@file:kernel.cu"}')

    assert play(tmp_path, both)[0].value.remark == source


def test_correcting_only_the_named_file_is_noticed(tmp_path: Path) -> None:
    reply, _ = play(
        tmp_path,
        writing("answer.json", '{"product": 42, "remark": "@file:kernel.cu"}'),
        writing("kernel.cu", "int main() {}"),
    )
    assert reply.value.remark == "int main() {}"


def test_only_files_of_the_folder_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    folder = tmp_path / "asked"
    seen = []

    def correct(place: Path) -> None:
        seen.append((place / "problem.md").read_text())
        (place / "answer.json").write_text('{"product": 42}')

    play(folder, writing("answer.json", '{"product": 1, "remark": "@file:../../secret"}'), correct)
    assert "only files in this folder" in seen[0]


def test_waiting_can_be_interrupted_and_taken_up_again(tmp_path: Path) -> None:
    def interrupt(_: Path) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(tmp_path, interrupt)
    (place,) = tmp_path.iterdir()
    (place / "answer.json").write_text('{"product": 42}')
    assert play(tmp_path)[0].value.product == 42


def test_questions_side_by_side_have_folders_of_their_own(tmp_path: Path) -> None:
    def answer_all(text: str) -> None:
        for place in tmp_path.glob("0*"):
            (place / "answer.json").write_text('{"product": 42}')

    model = ValidatingModel(HandOff(tmp_path, say=answer_all, poll_s=0.01))
    threads = [threading.Thread(target=model.ask, args=(question(f"number {n}"),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(place.name[:4] for place in tmp_path.iterdir()) == ["0001", "0002", "0003", "0004"]
