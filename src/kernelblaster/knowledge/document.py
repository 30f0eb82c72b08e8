"""A knowledge base as one JSON document: states -> optimizations -> scores, small enough for a prompt."""

import hashlib
import json
from math import exp
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

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
from kernelblaster.knowledge.trim import dumped, trimmed
from kernelblaster.records import Bottleneck, Optimization, State

PROMPT_BYTES = 50_000
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


class _Item(BaseModel):
    """`predicted_speedup` is what is expected now; `prior_speedup` what was, before the evidence."""

    model_config = ConfigDict(extra="forbid")

    technique: str = Field(min_length=1, max_length=200)
    title: str = ""
    description: str = ""
    preconditions: tuple[str, ...] = ()
    predicted_speedup: float = Field(default=1.1, gt=0, lt=1e4)
    prior_speedup: float | None = Field(default=None, gt=0, lt=1e4)
    prior_weight: float = Field(default=1.0, gt=0)
    attempts: float = 0.0
    valid_chance: float | None = None
    notes: tuple[str, ...] = ()
    retired: str | None = None
    evidence: Evidence = Evidence()


class _State(BaseModel):
    model_config = ConfigDict(extra="forbid")

    primary_bottleneck: Bottleneck
    secondary_characteristics: tuple[str, ...] = ()
    description: str = ""
    metrics: dict[str, float] = {}
    notes: tuple[str, ...] = ()
    discovered: bool = False
    optimizations: tuple[_Item, ...]

    @field_validator("primary_bottleneck", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        if not isinstance(value, str) or value in get_args(Bottleneck):
            return value
        return next((name for word, name in FOREIGN.items() if word in value.lower()), value)

    @field_validator("secondary_characteristics", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid")

    states: dict[str, _State]


def export_document(content: Content, limit_bytes: int | None = None) -> str:
    """The document; within a limit, without what matters least."""
    document = {"states": {entry.state.name: _state(content, entry.state.name) for entry in content.living}}
    return dumped(document) if limit_bytes is None else trimmed(document, limit_bytes)


def import_changes(text: str, source: str) -> list[tuple[Change, Provenance, str]]:
    """The changes that a document stands for. The same document gives the same identities, so taking it
    over twice is taking it over once. `source` is what messages call it."""
    changes: list[Change] = []
    for name, state in _parse(text, source).states.items():
        changes += _changes(name, state)
    return [(change, Provenance(), _identity(change)) for change in changes]


def _parse(text: str, source: str) -> _Document:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise KnowledgeError(
            f"{source}: is not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from error
    if isinstance(data, dict) and "states" not in data:
        data = {"states": data}
    try:
        return _Document.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        raise KnowledgeError(f"{source}: {_path(first['loc'])}: {first['msg']}.") from error


def _path(places: tuple[int | str, ...]) -> str:
    return "$" + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in places)


def _changes(name: str, state: _State) -> list[Change]:
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
    return hashlib.sha256(change.model_dump_json().encode()).hexdigest()


def _state(content: Content, name: str) -> dict[str, Any]:
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
