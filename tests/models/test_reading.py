"""An object is found in whatever a model wraps it in, and nothing is taken for one that is not."""

import pytest
from pydantic import BaseModel

from kernelblaster.models.answer_parser import read
from kernelblaster.models.failures import Malformed
from kernelblaster.models.request import ModelAnswer
from kernelblaster.models.schemas import closed, strict
from tests.models.asked import QUESTION

WRAPPED = [
    '{"product": 42}',
    '\n  {"product": 42}\n',
    '```json\n{"product": 42}\n```',
    '```\n{"product": 42}\n```',
    'Here it is:\n```json\n{"product": 42}\n```\nAnything else?',
    'First a draft:\n```json\n{"product": 41, "x"}\n```\nthen:\n```json\n{"product": 42}\n```',
    'The answer is {"product": 42}. Done.',
    '{"product": 42,}',
    '{"product": 42, "remark": "f(a,) {x,}",}',
    '<think>{"product": 1}? No.</think>{"product": 42}',
    '{"product": 42, "remark": "two\nlines"}',
]


def answer(text: str) -> ModelAnswer:
    return ModelAnswer(text=text, stop="done", model="m", usage=None)


@pytest.mark.parametrize("text", WRAPPED)
def test_the_object_is_found(text: str) -> None:
    assert read(QUESTION, answer(text)).product == 42


def test_commas_in_strings_are_left_alone() -> None:
    found = read(QUESTION, answer('{"product": 42, "remark": "int a[] = {1, 2,};",}'))
    assert found.remark == "int a[] = {1, 2,};"


@pytest.mark.parametrize("text", ["", "{", "}{", "null", '"x"', "[" * 100_000, '{"product": NaN}'])
def test_what_is_no_object_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        read(QUESTION, answer(text or "nothing"))


def test_the_problem_names_the_field_and_not_the_value() -> None:
    with pytest.raises(Malformed) as caught:
        read(QUESTION, answer('{"product": "SECRET"}'))
    assert "product: " in caught.value.problem and "SECRET" not in caught.value.problem


def test_a_strict_schema_has_no_bounds_and_requires_everything() -> None:
    schema = strict(QUESTION.json_schema)
    assert schema["properties"]["product"] == {"type": "integer"}
    assert schema["required"] == ["product", "remark"] and schema["additionalProperties"] is False


def test_a_schema_with_an_open_object_is_not_left_to_servers() -> None:
    class Table(BaseModel):
        rows: list[dict[str, int]]

    assert closed(QUESTION.json_schema) and not closed(Table.model_json_schema())


DEEP = '{"product": 42, "remark": ' + "[" * 900 + "]" * 900 + "}"
HOSTILE = [DEEP, '{"product": 1e999}', '{"product": Infinity}', '{"product": 42, "remark": "\\ud800"}']


@pytest.mark.parametrize("text", HOSTILE, ids=["deep", "1e999", "infinity", "surrogate"])
def test_an_object_that_no_one_could_use_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        read(QUESTION, answer(text))
