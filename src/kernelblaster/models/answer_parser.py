"""Parses a model's answer to a validated object, whether the JSON stands alone, in a fenced block or within
other text."""

import json
import re
from collections.abc import Iterator

from pydantic import ValidationError

from kernelblaster.models.failures import Empty, Malformed, Refused, TooLong
from kernelblaster.models.request import ModelAnswer, Request, T
from kernelblaster.strict_json import InvalidJson, parse_json

FENCED = re.compile(r"```[a-zA-Z0-9]*[ \t]*\n(.*?)```", re.DOTALL)
THINKING = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
TRAILING_COMMA = re.compile(r",(\s*[}\]])")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
SHOWN_ERRORS = 8


def read(request: Request[T], answer: ModelAnswer) -> T:
    """Returns the object in a model's answer, validated by the request's schema. Raises `Refused` if the
    model refused, `TooLong` if the answer was cut at the output limit, `Empty` if it has no text, and
    `Malformed` if no JSON object in it fits the schema."""
    if answer.stop == "refusal":
        raise Refused(f"{answer.model} refused ({request.role}): {_start(answer.text)}", answer)
    if answer.stop == "length":
        limit = request.output_limit
        raise TooLong(f"{answer.model} did not end within {limit} tokens ({request.role}).", answer)
    if not answer.text.strip():
        raise Empty(f"{answer.model} answered nothing ({request.role}).", answer)
    problem = "no JSON object was found in it"
    for text in _objects(answer.text):
        try:
            return request.schema.model_validate_json(text)
        except ValidationError as error:
            problem = _summary(error)
    raise Malformed(problem, answer)


def _objects(text: str) -> Iterator[str]:
    """JSON texts in a model's answer that may be the object asked for, likeliest first: the whole text,
    fenced blocks from the last on, the outermost braces; each as it is, or without trailing commas. Texts
    that do not parse to an object are left out."""
    text = THINKING.sub("", text).strip()
    first, last = text.find("{"), text.rfind("}")
    candidates = [text, *reversed(FENCED.findall(text)), text[first : last + 1]]
    for candidate in dict.fromkeys(candidates):
        for form in dict.fromkeys((candidate, _without_trailing_commas(candidate))):
            try:
                value = parse_json(form, control_characters=True)
            except InvalidJson:
                continue
            if isinstance(value, dict):
                yield json.dumps(value)
                break


def _without_trailing_commas(text: str) -> str:
    """The text without commas before a closing bracket; JSON strings, which may contain code, are not
    changed."""
    pieces, end = [], 0
    for string in STRING.finditer(text):
        pieces.append(TRAILING_COMMA.sub(r"\1", text[end : string.start()]))
        pieces.append(string.group())
        end = string.end()
    return "".join([*pieces, TRAILING_COMMA.sub(r"\1", text[end:])])


def _summary(error: ValidationError) -> str:
    """Where and why the object does not fit the schema, in words for the model, at most SHOWN_ERRORS
    problems."""
    errors = error.errors(include_url=False, include_input=False, include_context=False)
    lines = [
        f"{'.'.join(str(part) for part in item['loc']) or 'the object'}: {item['msg']}" for item in errors
    ]
    more = [f"and {len(lines) - SHOWN_ERRORS} more"] if len(lines) > SHOWN_ERRORS else []
    return "; ".join([*lines[:SHOWN_ERRORS], *more])


def _start(text: str) -> str:
    """The first 200 characters of a model's refusal, to be quoted in an error message; "without a reason" if
    it is empty."""
    return text.strip()[:200] or "without a reason"
