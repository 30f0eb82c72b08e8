"""What the user named to a command: model servers, knowledge bases and files to write. The keeper uses these
and, once sealed, no others."""

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
    """Servers with their `keys` (by environment variable), knowledge bases and files. `addresses` are URLs of
    knowledge bases by the form in which the command knows them, without a password; `variables` is the rest
    of the environment that the command hid."""

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
        """From now on nothing more can be claimed."""
        with self._lock:
            self._sealed = True
        return {}

    def claim(self, message: Data) -> Data:
        """Take up a server, a knowledge base or a file that the user named; nothing once sealed."""
        with self._lock:
            if not self._sealed:
                kinds = ("server", "knowledge", "file")
                self._claimed |= {(kind, str(message[kind])) for kind in kinds if kind in message}
        return {}

    def environment(self) -> Data:
        """The environment variables that the command hid; none once sealed."""
        with self._lock:
            return {"variables": {} if self._sealed else self._variables}

    def call(self, message: Data) -> Data:
        """The reply to a call of a model server. Failures are data."""
        from kernelblaster.models.kept_keys import KeptKeys

        with self._lock:
            if self._servers is None:
                self._servers = KeptKeys(self._keys)
            for kind, url in self._claimed:
                if kind == "server":
                    self._servers.claim(url)
        return self._servers.reply(message)

    def knowledge(self, message: Data) -> Data:
        """The reply to a request to a knowledge base, one at a time. Raises KernelBlasterError if it was not
        named, or fails."""
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
        """Write a file that the user named. Raises KernelBlasterError if it was not, or cannot be written."""
        from kernelblaster.store.files import write_whole

        path = str(message.get("file"))
        if ("file", path) not in self._claimed:
            raise KernelBlasterError(f"{path}: was not named as a file to write.")
        write_whole(Path(path), str(message.get("text")), mode=int(message.get("mode", 0o600)) & 0o666)
        return {}
