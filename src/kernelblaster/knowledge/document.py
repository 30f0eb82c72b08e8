"""Exports a knowledge base as one JSON document (performance states, with the techniques and predictions of
each), which can be made small enough for a prompt, and imports such a document."""

import hashlib
import json
from collections import Counter
from math import exp
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator

from kernelblaster.errors import KnowledgeError
from kernelblaster.knowledge.content import Content, OptimizationEntry
from kernelblaster.knowledge.events import (
    Change,
    EvidenceAdded,
    Noted,
    OptimizationAdded,
    Provenance,
    Retired,
    StateAdded,
)
from kernelblaster.knowledge.evidence import Evidence
from kernelblaster.knowledge.tally import total
from kernelblaster.knowledge.trim import dumped, trimmed
from kernelblaster.plain_text import one_line
from kernelblaster.records import Bottleneck, Optimization, State
from kernelblaster.strict_json import InvalidJson, parse_json

PROMPT_BYTES = 50_000
LARGEST_BYTES = 16 << 20
LONGEST_PATH = 200
FOREIGN: dict[str, Bottleneck] = {
    "coalesc": "uncoalesced-access",
    "bank": "bank-conflicts",
    "l2": "l2-bandwidth",
    "cache": "l2-bandwidth",
    "bandwidth": "memory-bandwidth",
    "register": "register-pressure",
    "spill": "register-pressure",
    "tensor": "tensor-pipe",
    "latency": "latency",
    "occupancy": "latency",
    "diverge": "divergence",
    "barrier": "barriers",
    "synchroni": "barriers",
    "atomic": "atomics",
    "launch": "launch-overhead",
    "tail": "tail-effect",
    "imbalance": "tail-effect",
    "redundan": "redundant-work",
    "issue": "instruction-issue",
    "instruction": "instruction-issue",
    "memory": "memory-bandwidth",
    "compute": "fp32-pipe",
    "fp32": "fp32-pipe",
}
"""Words of free text that tell which bottleneck is meant; the first that occurs counts."""


def _checked_name(name: str) -> str:
    """The name itself. Raises ValueError if it is empty, has several lines or looks like a path."""
    if name != one_line(name) or not name or ".." in name or name.startswith("/"):
        raise ValueError("is no name: one line of words, and no path")
    return name


Name = Annotated[str, Field(max_length=200), AfterValidator(_checked_name)]
Words = Annotated[str, Field(max_length=20_000)]
Several = Annotated[tuple[Words, ...], Field(max_length=1000)]
Speedup = Annotated[float, Field(gt=0, lt=1e4)]
MOST = 1e9  # attempts, or anything else that is counted
LARGEST_GAIN = 10.0  # a logarithm


class _Part(BaseModel):
    """Base of the parts of a document: unknown fields, infinity and NaN are rejected."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class _Item(_Part):
    """A technique in a state, as the JSON document has it. `predicted_speedup` is the prediction with all
    evidence, `prior_speedup` the one before any attempt (default: `predicted_speedup`). `attempts` and
    `valid_chance` are for readers; on import they follow from `evidence`."""

    technique: Name
    title: Words = ""
    description: Words = ""
    preconditions: Several = ()
    predicted_speedup: Speedup = 1.1
    prior_speedup: Speedup | None = None
    prior_weight: float = Field(default=1.0, gt=0, lt=MOST)
    attempts: float = Field(default=0.0, ge=0, lt=MOST)
    valid_chance: float | None = Field(default=None, ge=0, le=1)
    notes: Several = ()
    retired: Words | None = None
    evidence: Evidence = Evidence()

    @field_validator("evidence")
    @classmethod
    def _possible(cls, evidence: Evidence) -> Evidence:
        """The evidence itself. Raises ValueError for evidence that no attempts can give: impossible sums, or
        more attempts after another technique than in all."""
        tallies = [
            t for cells in (evidence.gains, evidence.after) for row in cells.values() for t in row.values()
        ]
        if any(
            t.attempts > MOST or abs(t.mean) > LARGEST_GAIN or t.squares > MOST * LARGEST_GAIN
            for t in tallies
        ):
            raise ValueError("has more attempts, or larger gains, than there can be")
        most = evidence.total.attempts * (1 + 1e-6) + 1e-6
        if any(total(row.values()).attempts > most for row in evidence.after.values()):
            raise ValueError("has more attempts `after` a technique than there are among its `gains`")
        return evidence


class _State(_Part):
    """A performance state with its techniques, as the JSON document has it: `primary_bottleneck` and
    `secondary_characteristics` say what bounds a kernel, `metrics` are profiler values by name."""

    primary_bottleneck: Bottleneck
    secondary_characteristics: Several = ()
    description: Words = ""
    metrics: dict[Name, float] = Field(default_factory=dict, max_length=1000)
    notes: Several = ()
    discovered: bool = False
    optimizations: tuple[_Item, ...] = Field(max_length=10_000)

    @field_validator("primary_bottleneck", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        """Validator: turns what a document has as a state's bottleneck into the name of one; free text is
        mapped by the first word of FOREIGN that occurs in it, anything else returned as it is."""
        if not isinstance(value, str) or value in get_args(Bottleneck):
            return value
        return next((name for word, name in FOREIGN.items() if word in value.lower()), value)

    @field_validator("secondary_characteristics", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        """Validator: turns a comma-separated text, or a list, into a tuple; anything else is returned as it
        is."""
        parts = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
        return tuple(parts) if isinstance(parts, list) else parts

    @field_validator("optimizations")
    @classmethod
    def _once(cls, items: tuple[_Item, ...]) -> tuple[_Item, ...]:
        """Validator: a state's techniques as they are. Raises ValueError if one occurs twice."""
        names = Counter(item.technique for item in items)
        twice = next((name for name, count in names.items() if count > 1), None)
        if twice is not None:
            raise ValueError(f"has the technique {twice!r} twice")
        return items


class _Document(_Part):
    """The whole document: states by name."""

    states: dict[Name, _State] = Field(max_length=10_000)


def export_document(content: Content, limit_bytes: int | None = None) -> str:
    """Returns the content of a knowledge base as JSON text; the techniques of each performance state are
    ordered by expected gain, the largest first. With a `limit_bytes`, the least important parts are left out
    until the text fits; raises KnowledgeError if it cannot be made to fit."""
    document = {"states": {entry.state.name: _state(content, entry.state.name) for entry in content.living}}
    return dumped(document) if limit_bytes is None else trimmed(document, limit_bytes)


def import_changes(text: str | bytes, source: str) -> list[tuple[Change, Provenance, str]]:
    """Returns the performance states of the JSON document `text`, with their techniques, evidence and notes,
    as changes that `KnowledgeBase.take_over` can record. Each is (change, provenance, identity). The identity
    is a text by which the change is recognized wherever it is recorded. The same document gives the same
    identities, so importing it twice has no further effect. `source` is the name of the document in error
    messages. Raises KnowledgeError if the document is malformed."""
    changes: list[Change] = []
    for name, state in _parse(text, source).states.items():
        changes += _changes(name, state)
    return [(change, Provenance(), _identity(change)) for change in changes]


def _parse(text: str | bytes, source: str) -> _Document:
    """Parses and validates a JSON document (`text`); one that is only the table of states is accepted too.
    Strict: a number in quotes is an error. Raises KnowledgeError with the path of the first problem; `source`
    names the document."""
    try:
        data = parse_json(text)
    except InvalidJson as error:
        raise KnowledgeError(f"{source}: {error}.") from error
    if isinstance(data, dict) and "states" not in data:
        data = {"states": data}
    try:
        return _Document.model_validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        words = first["msg"].removeprefix("Value error, ")
        raise KnowledgeError(f"{source}: {_path(first['loc'])}: {words}.") from error


def _path(keys: tuple[int | str, ...]) -> str:
    """Writes the `keys` that lead to a place in a JSON document as text, as in $.states.name[0], cut at
    LONGEST_PATH characters."""
    path = "$" + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in keys)
    return one_line(path) if len(path) <= LONGEST_PATH else f"{one_line(path[:LONGEST_PATH])}..."


def _changes(name: str, state: _State) -> list[Change]:
    """The changes that add to a knowledge base this state of a document, its techniques, evidence and
    notes."""
    record = State(
        name=name,
        primary=state.primary_bottleneck,
        secondary=state.secondary_characteristics,
        description=state.description,
        metrics=state.metrics,
    )
    changes: list[Change] = [StateAdded(state=record, discovered=state.discovered)]
    changes += [Noted(state=name, note=note) for note in state.notes]
    for item in state.optimizations:
        optimization = Optimization(
            technique=item.technique,
            title=item.title or item.technique.replace("_", " "),
            description=item.description,
            preconditions=item.preconditions,
            predicted=item.prior_speedup or item.predicted_speedup,
        )
        changes.append(OptimizationAdded(state=name, optimization=optimization, weight=item.prior_weight))
        if item.evidence != Evidence():
            changes.append(EvidenceAdded(state=name, technique=item.technique, evidence=item.evidence))
        changes += [Noted(state=name, technique=item.technique, note=note) for note in item.notes]
        if item.retired is not None:
            changes.append(Retired(state=name, technique=item.technique, reason=item.retired))
    return changes


def _identity(change: Change) -> str:
    """The identity of an imported change: a hash of what it says. A change whose identity is recorded already
    is not recorded again, so importing a document twice has no further effect."""
    return hashlib.sha256(change.model_dump_json().encode()).hexdigest()


def _state(content: Content, name: str) -> dict[str, Any]:
    """The state `name` of a knowledge base's content as JSON data for the exported document, with its
    techniques, the largest expected gain first; empty fields are left out."""
    entry = content.states[name]
    best_first = sorted(
        content.entries.get(name, {}).values(), key=lambda e: (-e.prediction(None).gain, e.technique)
    )
    found: dict[str, Any] = {
        "primary_bottleneck": entry.state.primary,
        "secondary_characteristics": list(entry.state.secondary),
        "description": entry.state.description,
        "metrics": entry.state.metrics,
        "notes": list(entry.notes),
        "discovered": entry.discovered,
    }
    kept = {key: value for key, value in found.items() if value or key == "primary_bottleneck"}
    return {**kept, "optimizations": [_item(entry) for entry in best_first]}


def _item(entry: OptimizationEntry) -> dict[str, Any]:
    """What is known about a technique in a state (`entry`) as JSON data for the exported document; empty
    fields are left out."""
    prediction = entry.prediction(None)
    found: dict[str, Any] = {
        "technique": entry.technique,
        "title": entry.title,
        "description": entry.description,
        "preconditions": list(entry.preconditions),
        "predicted_speedup": round(prediction.speedup, 3),
        "valid_chance": round(prediction.valid_chance, 2),
        "attempts": entry.evidence.total.attempts,
        "prior_speedup": round(exp(entry.prior), 6),
        "prior_weight": entry.weight,
        "notes": list(entry.notes),
        "retired": entry.retired,
    }
    if entry.evidence != Evidence():
        found["evidence"] = entry.evidence.model_dump(mode="json")
    return {key: value for key, value in found.items() if value or key == "technique"}
