"""Topics: a topic is the content of one page, with the browsers in which the page is open.

A page is made of parts, each a piece of HTML with an id. When something changes, the parts are made again,
and those that differ are sent to all clients. A part is made once, however many clients there are.
"""

import asyncio
import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

KEPT_S = 60.0  # seconds that a topic is kept after the last one looked at it
MOST_TOPICS = 64
MOST_GONE = 2000  # parts that are remembered to be gone


@dataclass(frozen=True)
class PagePart:
    """A piece of a page: the HTML of one element, with its `id`. If the piece is an entry of a list, `within`
    is the id of the element that contains the list; the list shows its entries in the order of the parts. For
    any other piece, `within` is empty."""

    id: str
    html: str
    within: str = ""


class View(Protocol):
    """Interface of the content of a page. `refresh` looks for changes and returns whether there are any;
    `parts` returns the pieces of the page as they are now. They are called by only one thread at a time."""

    def refresh(self) -> bool: ...

    def parts(self) -> Sequence[PagePart]: ...


class Client:
    """A browser in which a topic (a page) is open. `wake` is called, from any thread, when there is something
    to send to it. Of each part only the latest message waits to be sent, so memory is bounded."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._waiting: dict[str, bytes] = {}
        self._version = 0
        self._lock = threading.Lock()

    def put(self, messages: Mapping[str, bytes], version: int) -> None:
        """Adds messages to be sent, by the ids of the parts that they replace. `version` is that of the page
        after these messages."""
        with self._lock:
            self._waiting.update(messages)
            self._version = version
        self._wake()

    def take(self) -> bytes:
        """Removes all messages that wait for this browser and returns them as one text, to be sent; empty if
        there are none."""
        with self._lock:
            messages, self._waiting = self._waiting, {}
            at = _event("at", {"version": self._version}) if messages else b""
        return b"".join(messages.values()) + at


@dataclass
class _Sent:
    """A part as it was sent last, the version in which that was, and the id of the part before it in its
    list."""

    part: PagePart
    version: int
    after: str | None


class Topic:
    """One page that browsers keep open, called `name`: its parts, which `view` makes, and the `clients`
    (connected browsers). `version` grows with each change. `epoch` is a random text, drawn when this object
    is made. A page that was loaded with another epoch, such as before a restart of the server, must be loaded
    again, because its version does not count here."""

    def __init__(self, name: str, view: View) -> None:
        self.name = name
        self.view = view
        self.epoch = secrets.token_hex(4)
        self.version = 0
        self.used = time.monotonic()
        self.clients: set[Client] = set()
        self._sent: dict[str, _Sent] = {}
        self._gone: dict[str, int] = {}
        self._lock = threading.RLock()

    def refresh(self, *, always: bool = False) -> None:
        """Looks for changes, and sends the parts that have changed to all clients. `always`: makes all parts
        again even if nothing seems to have changed."""
        with self._lock:
            if not (self.view.refresh() or always or not self.version):
                return
            messages = self._update(self.view.parts())
            for client in self.clients if messages else ():
                client.put(messages, self.version)

    def page(self) -> tuple[int, list[PagePart]]:
        """Returns the page as it is now: (its version, all its parts). A client that has loaded it asks for
        changes after that version."""
        with self._lock:
            self.used = time.monotonic()
            self.refresh()
            return self.version, [sent.part for sent in self._sent.values()]

    def join(self, client: Client, since: int | None) -> None:
        """Adds a client. It is sent all parts that have changed after the version `since`, and from now on
        every change. `since` is None if its page was loaded before the server was restarted; it is then told
        to load the page again."""
        with self._lock:
            self.used = time.monotonic()
            if since is None or since > self.version:
                missed = {"reload": _event("reload", {})}
            else:
                missed = {id_: _part_event(sent) for id_, sent in self._sent.items() if sent.version > since}
                gone = (id_ for id_, version in self._gone.items() if version > since)
                missed |= {id_: _event("gone", {"id": id_}) for id_ in gone}
            self.clients.add(client)
            client.put(missed, self.version)

    def close(self) -> None:
        """Closes the files or databases that this page's content holds open."""
        close = getattr(self.view, "close", None)
        if close is not None:
            with self._lock:
                close()

    def leave(self, client: Client) -> None:
        with self._lock:
            self.clients.discard(client)
            self.used = time.monotonic()

    def _update(self, parts: Sequence[PagePart]) -> dict[str, bytes]:
        """Replace the parts by new ones; returns messages for clients on those that changed or are gone, by
        id."""
        self.version += 1
        messages: dict[str, bytes] = {}
        latest: dict[str, _Sent] = {}
        last: dict[str, str] = {}
        for part in parts:
            after = last.get(part.within) if part.within else None
            last[part.within] = part.id
            old = self._sent.get(part.id)
            if old is not None and old.part.html == part.html and old.after == after:
                latest[part.id] = old
                continue
            sent = latest[part.id] = _Sent(part, self.version, after)
            messages[part.id] = _part_event(sent)
            self._gone.pop(part.id, None)
        for id_ in self._sent.keys() - latest.keys():
            self._gone[id_] = self.version
            messages[id_] = _event("gone", {"id": id_})
        for id_ in list(self._gone)[:-MOST_GONE]:
            del self._gone[id_]
        self._sent = latest
        return messages


class Hub:
    """All topics (pages) that are open in a browser, or were in the last minute. `make` returns the content
    of the topic with a given name, None if there is no topic of that name."""

    def __init__(self, make: Callable[[str], View | None]) -> None:
        self._make = make
        self._topics: dict[str, Topic] = {}
        self._lock = threading.Lock()

    @property
    def clients(self) -> int:
        return sum(len(topic.clients) for topic in list(self._topics.values()))

    def topic(self, name: str) -> Topic | None:
        """Returns the topic (page) with this name, such as "run/ID"; makes it if it is not open in any
        browser. None if there is no topic of that name."""
        with self._lock:
            topic = self._topics.get(name)
            if topic is None:
                view = self._make(name)
                if view is None:
                    return None
                topic = self._topics[name] = Topic(name, view)
            topic.used = time.monotonic()
        return topic

    def watched(self) -> list[Topic]:
        """Returns the topics (pages) that are open in a browser now. Topics that were open in none for 60 s
        (KEPT_S) are closed and forgotten."""
        with self._lock:
            now = time.monotonic()
            idle = [t for t in self._topics.values() if not t.clients]
            old = [t for t in idle if now - t.used > KEPT_S]
            many = len(self._topics) - len(old) - MOST_TOPICS
            if many > 0:
                old += sorted((t for t in idle if t not in old), key=lambda t: t.used)[:many]
            for topic in old:
                del self._topics[topic.name]
                topic.close()
            return [topic for topic in self._topics.values() if topic.clients]


def async_wake(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> Callable[[], None]:
    """Returns a function that any thread may call to set `event`, for which a coroutine of `loop` waits. The
    function does nothing once the loop has ended."""

    def wake() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(event.set)

    return wake


def _part_event(sent: _Sent) -> bytes:
    """The message that makes open pages replace one of their parts, or insert it at its place in a list if it
    is new."""
    about: dict[str, Any] = {"id": sent.part.id, "html": sent.part.html}
    if sent.part.within:
        about |= {"within": sent.part.within, "after": sent.after}
    return _event("part", about)


def _event(kind: str, data: dict[str, Any]) -> bytes:
    """A message of a server-sent event stream, as bytes: its `kind`, and `data` as JSON."""
    return f"event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
