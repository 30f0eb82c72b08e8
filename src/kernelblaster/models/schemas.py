"""Converts JSON schemas to the form that servers accept for structured output."""

import json
from typing import Any

from kernelblaster.models.request import Request, T

KEPT = {"type", "properties", "items", "enum", "const", "anyOf", "$ref", "$defs", "description", "required"}


def strict(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns a JSON schema in the form that all servers with structured output accept: every property is
    required, others are not allowed, and bounds on values are left out. Those bounds are checked when the
    answer is parsed."""
    kept = {key: value for key, value in schema.items() if key in KEPT}
    if "oneOf" in schema:
        kept["anyOf"] = schema["oneOf"]
    if "prefixItems" in schema:
        kept["items"] = {"anyOf": schema["prefixItems"]}
    for key in ("properties", "$defs"):
        if key in kept:
            kept[key] = {name: strict(part) for name, part in kept[key].items()}
    if "anyOf" in kept:
        kept["anyOf"] = [strict(part) for part in kept["anyOf"]]
    if isinstance(kept.get("items"), dict):
        kept["items"] = strict(kept["items"])
    if kept.get("type") == "object":
        kept |= {"required": list(kept.setdefault("properties", {})), "additionalProperties": False}
    return {"$ref": kept["$ref"]} if "$ref" in kept else kept


def closed(schema: dict[str, Any]) -> bool:
    """True if every object in a JSON schema lists its properties. A server cannot enforce a schema that has
    an object with arbitrary properties (a dictionary)."""
    parts = [schema, *schema.get("$defs", {}).values()]
    while parts:
        part = parts.pop()
        if part.get("type") == "object" and not part.get("properties"):
            return False
        parts += [*part.get("properties", {}).values(), *part.get("anyOf", []), *part.get("oneOf", [])]
        parts += [*part.get("prefixItems", []), *([part["items"]] if "items" in part else [])]
    return True


def in_words(request: Request[T]) -> str:
    """Returns a text, to be added to a prompt, that asks for an answer as a JSON object that fits the
    request's schema, and quotes the schema. It is for servers that cannot enforce a schema."""
    return (
        "Answer with one JSON object that fits this JSON schema, and nothing else:\n"
        f"{json.dumps(request.json_schema, separators=(',', ':'))}"
    )
