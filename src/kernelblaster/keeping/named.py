"""What the user named on the command line: model servers, knowledge bases and files to write. The keeper, the
command's trusted process, uses these for the confined processes and, once `seal` was called, no others."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kernelblaster.errors import KernelBlasterError
from kernelblaster.keeper import Data

if TYPE_CHECKING:
    from kernelblaster.knowledge.kept import KnowledgeKeeper
    from kernelblaster.models.kept_keys import KeptKeys


class NamedThings:
    """The model servers, knowledge bases and files that confined processes may use through the keeper. `keys`
    are API keys by environment variable; `addresses` maps the URL of a knowledge base without its password to
    the one with it; `variables` are the other environment variables that the command hid from code of
    tasks."""

    def __init__(
        self,
        keys: Mapping[str, str],
        addresses: Mapping[str, str],
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._keys = dict(keys)
        self._addresses = dict(addresses)
        self._variables = dict(variables or {})
        self._servers: KeptKeys | None = None
        self._bases: dict[str, KnowledgeKeeper | None] = {}
        self._claimed: set[tuple[str, str]] = set()
        self._sealed = False
        self._lock = threading.Lock()

    def seal(self) -> Data:
        """Ends the time in which users name things: every later claim of a server, knowledge base or file is
        refused. Called before code of tasks runs. Returns {}."""
        with self._lock:
            self._sealed = True
        return {}

    def claim(self, message: Data) -> Data:
        """Remember the "server", "knowledge" base or "file" in the message as named by the user, so that it
        may be used later. Ignored once sealed. Returns {}."""
        with self._lock:
            if not self._sealed:
                kinds = ("server", "knowledge", "file")
                self._claimed |= {(kind, str(message[kind])) for kind in kinds if kind in message}
        return {}

    def environment(self) -> Data:
        """{"variables": the environment variables that the command hid from code of tasks}; empty once
        sealed."""
        with self._lock:
            return {"variables": {} if self._sealed else self._variables}

    def call(self, message: Data) -> Data:
        """The reply of a model server to the call in the message, as JSON data, with the key added here.
        Failures, such as a server that was not claimed, are returned as data too."""
        from kernelblaster.models.kept_keys import KeptKeys

        with self._lock:
            if self._servers is None:
                self._servers = KeptKeys(self._keys)
            for kind, url in self._claimed:
                if kind == "server":
                    self._servers.claim(url)
        return self._servers.reply(message)

    def knowledge(self, message: Data) -> Data:
        """The reply of the knowledge base at `message["at"]` to the request in the message. Raises
        KernelBlasterError if that base, or a file `message["to"]` to write to, was not claimed before, or the
        request fails."""
        from kernelblaster.knowledge.kept import KnowledgeKeeper

        where = str(message.get("at"))
        if ("knowledge", where) not in self._claimed:
            raise KernelBlasterError("that knowledge base was not named to this command.")
        if "to" in message and ("file", str(message["to"])) not in self._claimed:
            raise KernelBlasterError(f"{message['to']}: was not named as a file to write.")
        with self._lock:
            base = self._bases.setdefault(where, None) or KnowledgeKeeper(self._addresses.get(where, where))
            self._bases[where] = base
        return base.reply(message)

    def write(self, message: Data) -> Data:
        """Write `message["text"]` to the path `message["file"]`, with permissions `message["mode"]` (0o600 if
        absent). Returns {}. Raises KernelBlasterError if that path was not claimed as a file to write, or
        cannot be written."""
        from kernelblaster.store.files import write_whole

        path = str(message.get("file"))
        if ("file", path) not in self._claimed:
            raise KernelBlasterError(f"{path}: was not named as a file to write.")
        write_whole(Path(path), str(message.get("text")), mode=int(message.get("mode", 0o600)) & 0o666)
        return {}
