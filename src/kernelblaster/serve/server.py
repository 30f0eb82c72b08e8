"""Starts the dashboard.

    serve([Path("runs")], listening=Listening(port=8420))  # until Ctrl-C

This shows the runs in the folder `runs` at http://127.0.0.1:8420, for this machine only.
"""

import asyncio
import contextlib
import os
import secrets
import socket
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelblaster.errors import KernelBlasterError
from kernelblaster.knowledge.address import knowledge_at
from kernelblaster.passwords import is_url, shown
from kernelblaster.settings import settings

PORT = 8420
SENT_BYTES = 256_000  # that the system keeps for a client that does not read


@dataclass(frozen=True)
class Listening:
    """Where a dashboard listens (`host` and `port`), and for whom. Clients must send `token`; None: everybody
    on this machine may use it, and `host` must be this machine's loopback. `hosts` are further names by which
    browsers may address the dashboard."""

    host: str = "127.0.0.1"
    port: int = PORT
    token: str | None = None
    hosts: tuple[str, ...] = ()


def serve(
    folders: Sequence[Path] = (),
    *,
    knowledge: Sequence[str] = (),
    listening: Listening | None = None,
    read_only: bool = False,
    ready: Callable[[str], None] = lambda address: None,
) -> int:
    """Shows the runs and benches in `folders` (none: the user's own) and the knowledge bases in `knowledge`
    as web pages that are kept up to date, until Ctrl-C. `listening` says at which address, and for whom;
    None: port 8420, for this machine only. `ready` is called with the address of the first page. With
    `read_only`, nothing can be asked of searches. Returns how many of the searches that were resumed on the
    pages are still running. Raises KernelBlasterError if it cannot listen, or if others could reach it
    without a token."""
    try:
        import uvicorn

        from kernelblaster.serve.app import make_app
        from kernelblaster.serve.dashboard import Dashboard, Served
        from kernelblaster.serve.guard import SHORTEST_TOKEN, access_to, is_loopback
    except ImportError as error:
        raise KernelBlasterError(
            f"the dashboard needs the package {error.name}: pip install 'kernelblaster[serve]'."
        ) from error
    where = listening or Listening()
    if where.token is None and not is_loopback(where.host):
        raise KernelBlasterError(
            f"{where.host}: is not this machine alone, so a token is needed: give --token-file FILE."
        )
    if where.token is not None and len(where.token) < SHORTEST_TOKEN:
        raise KernelBlasterError(f"the token is too short: give at least {SHORTEST_TOKEN} characters.")
    served = Served(_folders(folders), _knowledge(folders, knowledge), read_only)
    dashboard = Dashboard(served)
    opened = listen(where.host, where.port)
    access = access_to(where.host, where.hosts, where.token)
    config = uvicorn.Config(
        make_app(dashboard, access),
        log_level="warning",
        access_log=False,  # addresses may name what nobody else should read
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=32_768,
    )
    dashboard.start()
    try:
        _run(uvicorn.Server(config), opened, lambda: ready(_address(where.host, opened)))
    finally:
        dashboard.stop()
    return dashboard.resumed.running


def read_token(file: Path) -> str:
    """Returns the token in `file`. If there is no such file, makes a new token and writes it there, readable
    only by the user. Raises KernelBlasterError if the file cannot be read or written, or if others can read
    it."""
    try:
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "w") as opened:
                opened.write(f"{secrets.token_urlsafe(32)}\n")
        if stat.S_IMODE(file.stat().st_mode) & 0o077:
            raise KernelBlasterError(f"{file}: others can read it; allow that to its owner only (chmod 600).")
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise KernelBlasterError(f"{file}: {getattr(error, 'strerror', None) or error}") from error


def _folders(given: Sequence[Path]) -> list[Path]:
    """The folders to serve: those given, else the user's data folder. Raises KernelBlasterError for a path
    that does not exist."""
    if not given:
        return [settings().data]
    for folder in given:
        if not folder.is_dir() and not folder.is_file():
            raise KernelBlasterError(f"{folder}: there is no such folder.")
    return [folder for folder in given if folder.is_dir()]


def _knowledge(folders: Sequence[Path], given: Sequence[str]) -> dict[str, str]:
    """The knowledge bases to serve by name: those given, files among the folders, and, if neither are named,
    the user's own. Names are those of the files, made unique."""
    wanted = [*given, *(str(folder) for folder in folders if folder.is_file())]
    own = knowledge_at(None)
    if not wanted and not folders and (is_url(own) or Path(own).is_file()):
        wanted = [own]
    named: dict[str, str] = {}
    for where in wanted:
        name = shown(where).rpartition("/")[2].partition("?")[0] or "knowledge"
        unique = name if name not in named else f"{name}-{len(named) + 1}"
        named[unique] = where if is_url(where) else str(Path(where).absolute())
    return named


def listen(host: str, port: int) -> socket.socket:
    """Opens and returns a TCP socket that accepts connections at the address `host` and `port`. Raises
    KernelBlasterError if the system refuses; the message says what to do."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        opened = socket.socket(family, socket.SOCK_STREAM)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SENT_BYTES)
        opened.bind((host.strip("[]"), port))
        opened.listen(512)
    except OSError as error:
        raise KernelBlasterError(
            f"{host}:{port}: {error.strerror or error}. Name another one (--port), or end the other program."
        ) from error
    return opened


def _address(host: str, opened: socket.socket) -> str:
    name = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    return f"http://{f'[{name}]' if ':' in name else name}:{opened.getsockname()[1]}/"


def _run(server: Any, opened: socket.socket, ready: Callable[[], None]) -> None:
    """Lets the web server answer on the socket `opened` until Ctrl-C. `ready` is called once it does."""

    async def main() -> None:
        serving = asyncio.ensure_future(server.serve(sockets=[opened]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        if server.started:
            ready()
        await serving

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
