"""Repeats what failed because a database could not be reached, until it can be reached again."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from kernelblaster.settings import settings

T = TypeVar("T")
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
LOST_STATES = ("08", "57P01", "57P02", "57P03", "53300")
"""SQLSTATEs (or their beginnings) of a connection that failed: broken, or the server is shutting down, has
crashed, is starting, or has too many connections."""
HOPELESS = ("translate host", "name or service not known", "name resolution", "password", "no pg_hba")
_log = logging.getLogger(__name__)


def is_lost(error: BaseException) -> bool:
    """True if a database error says that the server cannot be reached now, but may be later. False for errors
    that will not go away by waiting, such as an unknown host or a wrong password."""
    cause = getattr(error, "orig", None) or error
    words = str(cause).lower()
    if any(one in words for one in HOPELESS):
        return False
    state = getattr(cause, "sqlstate", None)
    if state is not None:
        return str(state).startswith(LOST_STATES)
    invalidated = isinstance(error, DBAPIError) and error.connection_invalidated
    operational = isinstance(error, OperationalError | InterfaceError) or type(cause).__name__ in (
        "OperationalError",
        "InterfaceError",
    )
    return invalidated or (operational and "connect" in words)


def patiently(attempt: Callable[[bool], T], lost: type[Exception]) -> T:
    """Calls `attempt` until it succeeds, and returns its result. The argument given to `attempt` is True in
    the first call and False in later ones. If it raises an exception of the type `lost`, it is called again
    after a pause of 0.1 s, later up to 5 s. After `database_patience_s` seconds (a setting, 60 by default) in
    all, the exception is raised. An attempt that failed may have done its work unnoticed, so `attempt` must
    be safe to repeat."""
    start, pause_s = time.monotonic(), FIRST_PAUSE_S
    first = True
    while True:
        try:
            return attempt(first)
        except lost as error:
            limit_s = settings().database_patience_s
            if time.monotonic() - start + pause_s > limit_s:
                raise
            if first:
                _log.warning("%s Waiting for it for up to %g s.", error, limit_s)
        first = False
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
