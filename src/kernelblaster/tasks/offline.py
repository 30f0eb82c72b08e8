"""Refuses connections of a task's Python code to other machines. If that code fails, removes the empty
folders that it leaves, such as one made for a download.

A task must compute the same every day: a model that downloads its weights may change, and fails without a
network. Connections that code in other languages opens are not seen here; docs/security.md says what confines
it.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

EVENTS = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.connect", "os.mkdir"})
OWN = frozenset({"localhost", "127.0.0.1", "::1", "", "0.0.0.0"})
_LOCAL = threading.local()


class OpensConnection(Exception):
    """Raised in a task's code where it would connect to another machine; its argument is that machine's name
    or address."""


@contextmanager
def offline() -> Iterator[None]:
    """A context in which this thread's Python code may not connect to other machines: OpensConnection is
    raised where it tries. Code that is about to download something often makes a folder for it first. So that
    none is left behind, folders that were made inside and are still empty are removed if the context ends by
    an exception."""
    _install()
    before, _LOCAL.folders = getattr(_LOCAL, "folders", None), []
    try:
        yield
    except BaseException:
        for folder in reversed(_LOCAL.folders):
            with suppress(OSError, ValueError):
                folder.rmdir()
        raise
    finally:
        _LOCAL.folders = before


@cache
def _install() -> None:
    """Register `_heard` as Python's audit hook, once for the process: such a hook cannot be removed."""
    sys.addaudithook(_heard)


def _heard(event: str, given: tuple[Any, ...]) -> None:
    """The audit hook: Python calls it for each `event` (with its arguments `given`) in all threads. In a
    thread inside `offline` it notes folders that are made, and raises OpensConnection for connections to
    other machines."""
    if event not in EVENTS or getattr(_LOCAL, "folders", None) is None:
        return
    if event == "os.mkdir":
        if isinstance(given[0], str) and given[2] == -1:
            _LOCAL.folders.append(Path(given[0]).absolute())
        return
    host = given[1] if event == "socket.connect" else given[0]
    if event == "socket.connect":
        host = host[0] if isinstance(host, tuple) else ""  # else a socket of this machine
    name = host.decode(errors="replace") if isinstance(host, bytes) else host
    if name is not None and str(name) not in OWN:
        raise OpensConnection(str(name))
