"""`kernelblaster serve [FOLDER...]`: a web page that shows searches while they run."""

import json
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from kernelblaster.cli.options import JsonOption
from kernelblaster.cli.show import out
from kernelblaster.cli.terminal import Terminal


def serve(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders of runs or benches, one of either, or knowledge bases; else your own."),
    ] = None,
    kb: Annotated[
        list[str] | None, typer.Option("--kb", help="A knowledge base: a file or a URL; may be given again.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on; others than this machine's own need a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0: any that is free.", min=0, max=65535)] = 8420,
    token_file: Annotated[
        Path | None,
        typer.Option(help="A file with a token that browsers must know; made if there is none."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A further name by which browsers address it; may be given again."),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Only show: nothing can be stopped.")
    ] = False,
    open_: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
    json_: JsonOption = False,
) -> None:
    """A page that shows searches while they run, and lets you stop, resume and steer them.

    The page is made from files that the searches write anyway, so watching does not slow a search down. Only
    this machine can open it, unless you give a token. Ctrl-C ends the page, not the searches.
    """
    from kernelblaster.serve.server import Listening, read_token
    from kernelblaster.serve.server import serve as serve_pages

    token = read_token(token_file) if token_file else None

    def ready(address: str) -> None:
        if json_:
            print(
                json.dumps({"address": address, "token_file": str(token_file) if token_file else None}),
                flush=True,
            )
        else:
            secret = f"; the token is in {token_file}" if token_file else ""
            out.print(f"{address}  Ctrl-C ends it{secret}", highlight=False, soft_wrap=True)
        if open_:
            webbrowser.open(address)

    left = serve_pages(
        folders or (),
        knowledge=kb or (),
        listening=Listening(host, port, token, tuple(allow_host or ())),
        read_only=read_only,
        ready=ready,
    )
    if left:
        words = "1 search that was resumed here goes on" if left == 1 else f"{left} searches go on"
        Terminal(stderr=True).print(f"{words}.", highlight=False)
