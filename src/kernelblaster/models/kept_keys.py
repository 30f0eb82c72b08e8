"""Calls model servers for other processes, in the keeper, the process that holds the keys. The keeper sends a
key only to addresses that the user named."""

import re
import threading
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from kernelblaster.models.dispatch import answer_with, context_with
from kernelblaster.models.exchange import Exchange
from kernelblaster.models.failures import ModelError, NotAllowed, Unavailable
from kernelblaster.models.names import KINDS, OWN_KEY

PATH = re.compile(r"chat/completions|models|v1/messages|v1/models/[A-Za-z0-9._%-]+")
"""What is asked of servers, below their address. Others would act in the user's name: files, keys, jobs."""


class KeptKeys:
    """Calls model servers for other processes, which never see the keys. `keys` maps environment variables to
    keys. Only addresses that `claim` allowed are called. The key of a kind of server (such as OPENAI_API_KEY)
    goes only to that kind's own address; KERNELBLASTER_API_KEY goes to any allowed address for which it is
    asked."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._keys = dict(keys)
        self._claimed: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def claim(self, url: str) -> None:
        """Allows calls to the address `url`, which the user has named. Such a call may use
        KERNELBLASTER_API_KEY. If `url` is the address of a known kind of server, it may also use that kind's
        key, such as OPENAI_API_KEY."""
        with self._lock:
            self._claimed |= {(kind.key, url) for kind in KINDS.values() if kind.url == url}
            self._claimed.add((OWN_KEY, url))

    def reply(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Makes the call that another process asks for and returns the reply, as JSON data; failures are
        returned as data too. The message is {"do": "answer", "exchange": ...} or {"do": "context",
        "exchange": ..., "model": ...} (a model's context length)."""
        try:
            exchange = Exchange.model_validate(message.get("exchange"))
            key = self._key(exchange)
            if message["do"] == "answer":
                return {"said": answer_with(exchange, key).model_dump(mode="json")}
            return {"tokens": context_with(exchange, key, str(message.get("model")))}
        except ModelError as error:
            return {"failure": failure_as_data(error)}
        except ValidationError:
            return {"failure": failure_as_data(NotAllowed("the keeper was asked for no proper call."))}

    def _key(self, exchange: Exchange) -> str | None:
        """The key for a request; None if there is none. Raises NotAllowed if the address was not claimed for
        that key, or the path is not one for asking models."""
        if not PATH.fullmatch(exchange.path):
            raise NotAllowed(f"{exchange.name}: the keeper asks models, and nothing else of a server.")
        if (exchange.key, exchange.url) not in self._claimed:
            raise NotAllowed(f"{exchange.name}: the key in {exchange.key} was not given for {exchange.url}.")
        return self._keys.get(exchange.key)


def failure_as_data(error: ModelError) -> dict[str, Any]:
    """Returns the exception `error` as JSON data, which is sent to the process that made the request; there
    keys.py raises the same exception again."""
    data: dict[str, Any] = {"kind": type(error).__name__, "message": str(error)}
    if isinstance(error, Unavailable):
        data |= {"wait_s": error.wait_s, "maybe_charged": error.maybe_charged}
    return data
