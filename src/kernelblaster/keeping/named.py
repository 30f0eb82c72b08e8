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
    """The model servers, knowledge bases and files that confined processes may use through the keeper: those
    that the method `claim` was told of, because the user named them. `keys` are API keys by the name of their
    environment variable. `addresses` maps the URL of a knowledge base without its password to the same URL
    with it. `variables` are the other environment variables, by name, that the command hid from the code of
    task files."""

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
        """Makes every later call of `claim` have no effect, so that no server, knowledge base or file is
        added any more to those that confined processes may use. From then on, `environment` returns no
        variables. Called before the code of task files runs. Returns {}."""
        with self._lock:
            self._sealed = True
        return {}

    def claim(self, message: Data) -> Data:
        """Remembers that the user named the model server, knowledge base or file in the message, under
        "server", "knowledge" or "file", so that it may be used later. Has no effect once `seal` was called,
        which happens before the code of task files runs. Returns {}."""
        with self._lock:
            if not self._sealed:
                kinds = ("server", "knowledge", "file")
                self._claimed |= {(kind, str(message[kind])) for kind in kinds if kind in message}
        return {}

    def environment(self) -> Data:
        """Returns the environment variables that the command hid from the code of task files, other than API
        keys, as {"variables": values by name}. Once `seal` was called, which happens before the code of task
        files runs, the answer is {"variables": {}}."""
        with self._lock:
            return {"variables": {} if self._sealed else self._variables}

    def call(self, message: Data) -> Data:
        """Sends the request in the message to a model server, with the API key added here, and returns the
        server's reply as JSON data. A failure is returned as data too, such as a request to a server that the
        user did not name (`claim`)."""
        from kernelblaster.models.kept_keys import KeptKeys

        with self._lock:
            if self._servers is None:
                self._servers = KeptKeys(self._keys)
            for kind, url in self._claimed:
                if kind == "server":
                    self._servers.claim(url)
        return self._servers.reply(message)

    def knowledge(self, message: Data) -> Data:
        """Passes the request in the message to the knowledge base at the path or URL `message["at"]` and
        returns the reply, as JSON data. `message["to"]`, if present, is a file that the request writes.
        Raises KernelBlasterError if the user did not name the knowledge base or that file (`claim`), or if
        the request fails."""
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
        """Writes `message["text"]` to the path `message["file"]`, with permissions `message["mode"]` (0o600
        if absent). Returns {}. Raises KernelBlasterError if the user did not name that path as a file to
        write (`claim`), or if it cannot be written."""
        from kernelblaster.store.files import write_whole

        path = str(message.get("file"))
        if ("file", path) not in self._claimed:
            raise KernelBlasterError(f"{path}: was not named as a file to write.")
        write_whole(Path(path), str(message.get("text")), mode=int(message.get("mode", 0o600)) & 0o666)
        return {}
