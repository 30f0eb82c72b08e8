"""The key keeper: the process that holds the API keys and does nothing but call the servers that they are
for."""

import os
import socket
import struct
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from kernelblaster.keeper import receive, send
from kernelblaster.models.dispatch import answer_with, context_with
from kernelblaster.models.exchange import Exchange
from kernelblaster.models.failures import ModelError, NotAllowed, Unavailable
from kernelblaster.models.names import KINDS, OWN_KEY

MESSAGE_S = 60.0  # to get a message across; the call itself has its own limits


class KeyKeeper:
    """Calls servers for other processes, which never see the keys; `keys` are by environment variable.
    Servers of known kinds get their own key. KERNELBLASTER_API_KEY goes only to addresses that were
    claimed before the keeper was sealed, that is, before code of a task ran."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._keys = dict(keys)
        self._urls = {(kind.key, kind.url) for kind in KINDS.values()}
        self._sealed = False
        self._lock = threading.Lock()

    def reply(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The reply, as JSON data, to a message {"do": "seal" | "claim" | "answer" | "context", ...} of
        another process. Failures are returned as data too."""
        try:
            match message.get("do"):
                case "seal":
                    self._sealed = True
                    return {}
                case "claim":
                    self._claim(str(message.get("url")))
                    return {}
                case "answer":
                    exchange = Exchange.model_validate(message.get("exchange"))
                    return {"said": answer_with(exchange, self._key(exchange)).model_dump(mode="json")}
                case "context":
                    exchange = Exchange.model_validate(message.get("exchange"))
                    return {"tokens": context_with(exchange, self._key(exchange), str(message.get("model")))}
            raise NotAllowed("the key keeper was asked for something else than a call.")
        except ModelError as error:
            return {"failure": failure_as_data(error)}
        except ValidationError:
            return {"failure": failure_as_data(NotAllowed("the key keeper was asked for no proper call."))}

    def _claim(self, url: str) -> None:
        """Allow KERNELBLASTER_API_KEY for this address; ignored once sealed."""
        with self._lock:
            if not self._sealed:
                self._urls.add((OWN_KEY, url))

    def _key(self, exchange: Exchange) -> str | None:
        """The key for a request; None if there is none. Raises NotAllowed if it was not given for that
        address."""
        key = self._keys.get(exchange.key)
        if key is not None and (exchange.key, exchange.url) not in self._urls:
            raise NotAllowed(f"{exchange.name}: the key in {exchange.key} was not given for {exchange.url}.")
        return key


def keep(listening: socket.socket, keys: Mapping[str, str]) -> None:
    """Serve processes of the same user on a listening Unix socket, until this process is ended. `keys`
    are by environment variable."""
    key_keeper = KeyKeeper(keys)
    while True:
        connection, _ = listening.accept()
        threading.Thread(target=_serve, args=(connection, key_keeper), daemon=True).start()


def failure_as_data(error: ModelError) -> dict[str, Any]:
    """The error as JSON data, from which `keys` raises it again in the other process."""
    data: dict[str, Any] = {"kind": type(error).__name__, "message": str(error)}
    if isinstance(error, Unavailable):
        data |= {"wait_s": error.wait_s, "maybe_charged": error.maybe_charged}
    return data


def _serve(connection: socket.socket, key_keeper: KeyKeeper) -> None:
    """Answer the one message of a connection, if it comes from a process of the same user."""
    with connection, suppress(OSError, ValueError):
        connection.settimeout(MESSAGE_S)
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        if struct.unpack("3i", peer)[1] == os.getuid():
            send(connection, key_keeper.reply(receive(connection)))
