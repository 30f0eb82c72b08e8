"""Access to a knowledge base through the keeper, another process that has it open. A confined process has
neither the knowledge base's file nor its password; it can only read the content and record changes, which the
keeper checks."""

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from pydantic import TypeAdapter

from kernelblaster import keeper
from kernelblaster.errors import KnowledgeError
from kernelblaster.knowledge.consolidate import KnowledgeLimits, justified
from kernelblaster.knowledge.content import Content, content_of
from kernelblaster.knowledge.content_changes import ContentChanges, updated
from kernelblaster.knowledge.event_rows import Fresh
from kernelblaster.knowledge.events import (
    KNOWLEDGE,
    Change,
    KnowledgeEvent,
    Observed,
    Provenance,
    Reverted,
    RolledBack,
)
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.rows import event_of
from kernelblaster.knowledge.versioned_content import NOBODY
from kernelblaster.passwords import shown

LIMIT_S = 600.0  # for one request; locks and servers have shorter limits of their own
_changes: TypeAdapter[Change] = TypeAdapter(Change)


def open_knowledge(where: str | Path, create: bool = True) -> KnowledgeBase:
    """Returns the knowledge base at `where`, a path or URL. If this process has told the keeper (its
    command's helper process) of this address (`keeper.claim`), the keeper opens the knowledge base and this
    process asks it; else this process opens it. `create`: make it if there is none."""
    if keeper.keeps(str(where)):
        return KeptKnowledge(str(where), create)
    return KnowledgeBase(where, create)


def copy_kept(where: str, target: Path) -> None:
    """Makes the keeper (another process) copy the knowledge base at the path or URL `where` to the file
    `target`, which must have been named to the keeper before (`keeper.claim`). Raises KnowledgeError if the
    keeper cannot do so."""
    _asked(where, "copy", to=str(target))


class KeptKnowledge(KnowledgeBase):
    """The knowledge base at `where` (a path or URL), read and changed through the keeper, another process
    that has it open and carries out what this process asks for. The constructor makes the keeper open it; if
    there is none, it is made, provided that `create` is set. Its content can be read. What searches learn,
    and their clean-ups (merged performance states, retired techniques, lowered weights), can be recorded, and
    results of attempts can be withdrawn. The methods that roll back, revert and rebuild raise
    KnowledgeError."""

    def __init__(self, where: str, create: bool = True) -> None:
        self._where = where
        self._content = Content()
        self._call("open", create=create)

    @property
    def name(self) -> str:
        return shown(self._where)

    def close(self) -> None:
        self._call("close")

    def content(self) -> Content:
        about, states, optimizations = self._call("changes", since=self._content.version)["rows"]
        if about["version"] != self._content.version:
            self._content = updated(self._content, ContentChanges(about, states, optimizations))
        return self._content

    def log(self, since: int = 0, until: int | None = None) -> list[KnowledgeEvent]:
        rows = self._call("events", since=since, until=until)["rows"]
        return [event_of(SimpleNamespace(**row)) for row in rows]  # type: ignore[arg-type]

    def at(self, version: int) -> Content:
        latest = self.content()
        if not 0 <= version <= latest.version:
            raise KnowledgeError(f"{self.name}: has no version {version}; the latest is {latest.version}.")
        return latest if version == latest.version else content_of(self.log(0, version))

    def record(self, changes: Sequence[Change], provenance: Provenance = NOBODY) -> int:
        return int(self._call("record", changes=_texts(changes), provenance=_text(provenance))["version"])

    def take_over(self, known: Sequence[Fresh]) -> int:
        rows = [(change.model_dump_json(), _text(provenance), uid) for change, provenance, uid in known]
        return int(self._call("take_over", known=rows)["taken"])

    def withdraw(self, concerned: Callable[[KnowledgeEvent], bool]) -> int:
        found = [e.version for e in self.log() if isinstance(e.change, Observed) and concerned(e)]
        return int(self._call("withdraw", versions=found)["withdrawn"]) if found else 0

    def _write(self, *_: object) -> NoReturn:
        raise KnowledgeError(f"{self.name}: is kept by another process; use `kernelblaster kb`.")

    rollback = revert = rebuild = rebuilt = _write  # type: ignore[assignment]

    def _call(self, call: str, **more: Any) -> dict[str, Any]:
        """Sends the request `call` with the arguments `more` to the keeper, the process that has the
        knowledge base open, and returns its reply. Raises the KnowledgeError that it reports."""
        return _asked(self._where, call, **more)


class KnowledgeKeeper:
    """Carries out, in the keeper process, the requests that `KeptKnowledge` sends from other processes for
    the knowledge base at `where`, one at a time."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._open: KnowledgeBase | None = None
        self._lock = threading.Lock()

    def reply(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Carries out a request of another process and returns the reply; both are JSON data. The request
        says by its key `call` what to do: "open", "changes", "events", "record", "take_over", "withdraw",
        "copy" or "close". Raises KnowledgeError if that fails or the request is malformed or unknown."""
        calls: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "open": self._opened,
            "changes": lambda asked: {"rows": self._base().changes(int(asked["since"]))},
            "events": self._events_between,
            "record": self._recorded,
            "take_over": self._taken_over,
            "withdraw": self._withdrawn,
            "copy": self._copied,
            "close": self._closed,
        }
        try:
            with self._lock:
                return calls[message["call"]](message)
        except (KeyError, TypeError, ValueError) as error:  # pydantic's ValidationError is a ValueError
            raise KnowledgeError(
                f"{shown(self._where)}: was asked for something that it cannot do."
            ) from error

    def _base(self, create: bool = True) -> KnowledgeBase:
        if self._open is None:
            self._open = KnowledgeBase(self._where, create)
        return self._open

    def _opened(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        self._base(bool(asked["create"]))
        return {}

    def _closed(self, _: Mapping[str, Any]) -> dict[str, Any]:
        if self._open is not None:
            self._open.close()
            self._open = None
        return {}

    def _copied(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        from kernelblaster.knowledge.initial import start_here

        start_here(self._where, Path(asked["to"]))
        return {}

    def _events_between(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        until = None if asked["until"] is None else int(asked["until"])
        return {"rows": self._base().rows_of_log(int(asked["since"]), until)}

    def _recorded(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        changes = [_change(text) for text in asked["changes"]]
        provenance = Provenance.model_validate_json(asked["provenance"])
        return {"version": self._base().record(changes, provenance)}

    def _taken_over(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        known = [
            (_changes.validate_json(change), Provenance.model_validate_json(provenance), str(uid))
            for change, provenance, uid in asked["known"]
        ]
        return {"taken": self._base().take_over(self._allowed(known))}

    def _allowed(self, known: Sequence[Fresh]) -> list[Fresh]:
        """Returns those of the changes that a search may make: all that it learned, and of changes that keep
        the knowledge base small those that its present content justifies. Others are left out; they may have
        been justified a moment ago. Raises ValueError for changes that no search makes (a rollback)."""
        if all(isinstance(change, KNOWLEDGE) for change, *_ in known):
            return list(known)
        content, allowed = self._base().content().copy(), []
        for fresh in known:
            change, provenance, _ = fresh
            if isinstance(change, RolledBack | Reverted):
                raise ValueError(change.kind)
            if isinstance(change, KNOWLEDGE) or justified(change, content, KnowledgeLimits()):
                content.apply(change, provenance)
                allowed.append(fresh)
        return allowed

    def _withdrawn(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        versions = frozenset(int(version) for version in asked["versions"])
        return {"withdrawn": self._base().withdraw(lambda event: event.version in versions)}


def _asked(where: str, call: str, **more: Any) -> dict[str, Any]:
    """The reply of the keeper (the process that has the knowledge base open) to the request `call`, with the
    arguments `more`, to the knowledge base at `where`. Raises the KnowledgeError that it reports."""
    reply = keeper.ask({"do": "knowledge", "at": where, "call": call, **more}, LIMIT_S)
    if "failure" in reply:
        raise KnowledgeError(str(reply["failure"]["message"]))
    return reply


def _change(text: str) -> Change:
    """The change in a JSON text. Raises ValueError if it is malformed or of a kind that searches do not
    record (a rollback, a reversion)."""
    change = _changes.validate_json(text)
    if not isinstance(change, KNOWLEDGE):
        raise ValueError(change.kind)
    return change


def _text(provenance: Provenance) -> str:
    return provenance.model_dump_json(exclude_none=True)


def _texts(changes: Sequence[Change]) -> list[str]:
    return [change.model_dump_json() for change in changes]
