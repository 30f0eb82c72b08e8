"""`kernelblaster mcp [FOLDER...]`: a server of the Model Context Protocol for coding agents."""

import json
import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from kernelblaster.cli.groups import grouped
from kernelblaster.cli.options import DeviceOptions, JsonOption, RunsOption
from kernelblaster.errors import KernelBlasterError

TOKEN = "mcp-token"  # the file in the data folder, unless another is named
TOKENS = "mcp-tokens"  # where the token of each server's port is: a folder in the data folder
PORT = 8421


@grouped
def mcp(
    where: DeviceOptions,
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders in which agents may name task files and candidates, and export to."),
    ] = None,
    kb: Annotated[
        str | None, typer.Option("--kb", help="A knowledge base: a file or a URL; else your own.")
    ] = None,
    runs: RunsOption = None,
    http: Annotated[
        bool, typer.Option("--http", help="Over HTTP, for several agents; else standard input and output.")
    ] = False,
    host: Annotated[str, typer.Option(help="With --http: the address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="With --http; 0: any that is free.", min=0, max=65535)] = PORT,
    token_file: Annotated[
        Path | None,
        typer.Option(help="With --http: a file with the token that clients send; made if there is none."),
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A further name by which clients address it; may be given again.")
    ] = None,
    json_: JsonOption = False,
) -> None:
    """The judge, the knowledge base and searches as tools for coding agents (Model Context Protocol).

    A client starts this command and speaks with it over standard input and output; docs/mcp.md says how to
    set up common clients. Agents can read and write files in FOLDERs only, and run nothing but confined
    candidates.
    """
    try:
        from kernelblaster.mcp.server import serve_http, serve_stdio
        from kernelblaster.mcp.setup import AgentSetup
    except ImportError as error:
        raise KernelBlasterError(
            f"this needs the package {error.name}: pip install 'kernelblaster[mcp]'."
        ) from error
    from kernelblaster.cli.options import runs_folder
    from kernelblaster.knowledge.address import knowledge_at
    from kernelblaster.passwords import is_url
    from kernelblaster.settings import settings

    known = knowledge_at(kb)
    for folder in folders or ():
        if not folder.is_dir():
            raise KernelBlasterError(f"{folder}: there is no such folder.")
    setup = AgentSetup(
        folders=tuple(folder.absolute() for folder in folders or ()),
        runs=runs_folder(runs).absolute(),
        data=(settings().data / "mcp").absolute(),
        knowledge=known if is_url(known) else str(Path(known).absolute()),
        device=where.device,
        gpu=where.gpu,
        trusted=settings().trusted,
    )
    if not http:
        if sys.stdin.isatty():
            print("waiting for a client on standard input; see docs/mcp.md. Ctrl-C ends it.", file=sys.stderr)
        serve_stdio(setup)
        return
    from kernelblaster.serve.server import read_token

    file = token_file or settings().data / TOKEN
    file.parent.mkdir(parents=True, exist_ok=True)

    def ready(address: str) -> None:
        remember_token_file(address, file)
        about = {"address": address, "token_file": str(file)}
        print(
            json.dumps(about) if json_ else f"{address}  the token is in {file}; Ctrl-C ends it", flush=True
        )

    serve_http(setup, host, port, read_token(file), hosts=tuple(allow_host or ()), ready=ready)


def remember_token_file(address: str, file: Path) -> None:
    """Records in this user's data folder that the token of the server at `address` is in `file`, so that
    `kernelblaster call` finds it. The token itself is not copied."""
    from kernelblaster.settings import settings

    folder = settings().data / TOKENS
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    (folder / str(urlsplit(address).port)).write_text(str(file.absolute()))


def token_file_of(address: str) -> Path:
    """Returns the path of the file with the token of the server at `address`. For a server of this machine,
    this is the file that `remember_token_file` recorded for its port. If none is recorded, or for a server of
    another machine, it is the file that this user's servers use by default."""
    from kernelblaster.serve.guard import is_loopback
    from kernelblaster.settings import settings

    url = urlsplit(address)
    known = settings().data / TOKENS / str(url.port)
    try:
        if is_loopback(url.hostname or ""):
            return Path(known.read_text())
    except OSError:
        pass
    return settings().data / TOKEN
