"""Shortens an exported knowledge base (a JSON document) so that it fits into a prompt, by leaving out the
least important parts."""

import json
from typing import Any

from kernelblaster.errors import KnowledgeError

NEEDLESS = (("evidence", "prior_speedup", "prior_weight"), ("notes", "retired"), ("title",))
"""What optimizations can do without, in the order in which it goes."""


def dumped(document: dict[str, Any]) -> str:
    """Returns the document as JSON text, indented by one space a level."""
    return json.dumps(document, indent=1, ensure_ascii=False)


def trimmed(document: dict[str, Any], limit_bytes: int) -> str:
    """Returns the document as JSON text of at most `limit_bytes`. Until it fits, these are left out in order:
    evidence and priors, then notes, then titles, then the techniques with the lowest expected gains; the best
    technique of each performance state goes last. `document` itself is changed. Raises KnowledgeError if the
    text cannot be made to fit."""
    text = dumped(document)
    items = [item for state in document["states"].values() for item in state["optimizations"]]
    for names in NEEDLESS:
        if len(text.encode()) <= limit_bytes:
            return text
        for item in items:
            for name in names:
                item.pop(name, None)
        text = dumped(document)
    _drop(document["states"], len(text.encode()) - limit_bytes)
    text = dumped(document)
    if len(text.encode()) > limit_bytes or not document["states"]:
        raise KnowledgeError(f"{limit_bytes} bytes are too few for a document; allow at least 1000.")
    return text


def _drop(states: dict[str, Any], excess: int) -> None:
    """Remove techniques from `states` in place, the lowest predictions first, and states that have none left,
    until about `excess` bytes of the JSON document are saved."""
    for name in [name for name, state in states.items() if not state["optimizations"]]:
        if excess > 0:
            excess -= _size(states.pop(name), depth=2) + len(name)
    order = [
        (index == 0, item["predicted_speedup"] * item.get("valid_chance", 1.0), name, index)
        for name, state in states.items()
        for index, item in enumerate(state["optimizations"])
    ]
    for _, _, name, index in sorted(order):
        if excess <= 0:
            break
        state = states[name]
        excess -= _size(state["optimizations"][index], depth=4)
        state["optimizations"][index] = None
        if not any(state["optimizations"]):
            excess -= _size(states.pop(name), depth=2) + len(name)
    for state in states.values():
        state["optimizations"] = [item for item in state["optimizations"] if item is not None]


def _size(part: object, depth: int) -> int:
    """At least how many bytes a JSON value (`part`) takes in the document when it is written at this `depth`
    of indentation."""
    text = json.dumps(part, indent=1, ensure_ascii=False)
    return len(text.encode()) + depth * text.count("\n")
