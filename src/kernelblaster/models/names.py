"""Parses names of models, such as `openai:gpt-x`, `ollama:qwen3:32b`, `openai:NAME@URL` or
`handoff:FOLDER`."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from kernelblaster.models.failures import BadName

OWN_KEY = "KERNELBLASTER_API_KEY"
FOLDERS = ("handoff", "replay")


@dataclass(frozen=True)
class Kind:
    """A kind of model server: the protocol that it `speaks`, its address `url`, and the name `key` of the
    environment variable that has its key. `needs_key`: it does not answer without one."""

    speaks: Literal["openai", "anthropic"]
    url: str
    key: str
    needs_key: bool


KINDS = {
    "openai": Kind("openai", "https://api.openai.com/v1", "OPENAI_API_KEY", True),
    "anthropic": Kind("anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY", True),
    "gemini": Kind(
        "openai", "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY", True
    ),
    "openrouter": Kind("openai", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", True),
    "vllm": Kind("openai", "http://localhost:8000/v1", OWN_KEY, False),
    "ollama": Kind("openai", "http://localhost:11434/v1", OWN_KEY, False),
    "llamacpp": Kind("openai", "http://localhost:8080/v1", OWN_KEY, False),
}


@dataclass(frozen=True)
class ModelName:
    """The name of a model, KIND:REST or KIND:REST@URL. `rest` is the server's name for the model, or a folder
    for the kinds `handoff` and `replay`. `url` is an address in place of the kind's own; the key is then
    KERNELBLASTER_API_KEY, so that no server gets the key of another one."""

    kind: str
    rest: str
    url: str | None = None

    def __str__(self) -> str:
        return f"{self.kind}:{self.rest}" + (f"@{self.url}" if self.url else "")

    @property
    def server(self) -> Kind | None:
        """The protocol, address and key of the server that the name means, with the name's own address if it
        has one. None if the name is a folder's (a hand-off to a person, or recorded answers)."""
        kind = KINDS.get(self.kind)
        return Kind(kind.speaks, self.url, OWN_KEY, False) if kind and self.url else kind


@dataclass(frozen=True)
class ModelTable:
    """Which model plays each role (answers that kind of question): the role's own one in `roles`, else the
    `default`. A `default` of None means that roles without one of their own have no model."""

    default: ModelName | None
    roles: Mapping[str, ModelName]

    def of(self, role: str) -> ModelName | None:
        """Returns the name of the model that plays this role (answers this kind of question); None if none
        does."""
        return self.roles.get(role, self.default)

    @property
    def all(self) -> set[ModelName]:
        """All models of the table, each once: the default one and those of single roles."""
        return {*self.roles.values(), *([self.default] if self.default else [])}


def parse_name(text: str) -> ModelName:
    """Returns the name of a model that is written in a text like `openai:gpt-x`, `vllm:NAME@URL` or
    `handoff:FOLDER`. Raises BadName if the kind is unknown, or if the URL is not http(s) or has a user, a
    password or a query in it."""
    kind, colon, rest = text.partition(":")
    if not colon or not rest or kind not in (*KINDS, *FOLDERS):
        kinds = ", ".join((*KINDS, *FOLDERS))
        raise BadName(f"{text!r} is no model: it should be KIND:NAME, with one of {kinds} (docs/models.md).")
    name, *address = re.split(r"@(?=[a-z]+://)", rest, maxsplit=1)
    if kind in FOLDERS or not address:
        return ModelName(kind, rest)
    url = address[0]
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or parts.username or parts.password or parts.query:
        raise BadName(
            f"{kind}:{name}: its address must be http(s), without a user, a password or a key in it."
        )
    return ModelName(kind, name, url.rstrip("/"))


def parse_table(texts: Sequence[str], roles: Collection[str]) -> ModelTable:
    """Returns which model plays each role (answers that kind of question), from texts of a command line:
    `NAME` is the model for all roles, `ROLE=NAME` that for one. Raises BadName if a ROLE is not one of
    `roles`, or if NAME is no model's name."""
    default = None
    named = {}
    for text in texts:
        role, equals, rest = text.partition("=")
        if not equals or ":" in role:
            default = parse_name(text)
        elif role not in roles:
            raise BadName(f"{role!r} is no role; there are {', '.join(sorted(roles))}.")
        else:
            named[role] = parse_name(rest)
    return ModelTable(default, named)
