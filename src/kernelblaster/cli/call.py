"""`kernelblaster call TOOL NAME=VALUE...`: calls one tool of an MCP server that was started by `kernelblaster
mcp --http`, and prints its answer."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelblaster.cli.mcp import PORT, token_file_of
from kernelblaster.cli.options import JsonOption
from kernelblaster.cli.terminal import Terminal
from kernelblaster.errors import KernelBlasterError
from kernelblaster.plain_text import printable


def call(
    tool: Annotated[str | None, typer.Argument(help="The tool; left out: all are listed.")] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            help="Its arguments, each NAME=VALUE, or NAME=@FILE for a file's text (@- for standard input)."
        ),
    ] = None,
    address: Annotated[
        str, typer.Option(help="Where the server listens, as it printed.")
    ] = f"http://127.0.0.1:{PORT}/mcp",
    token_file: Annotated[
        Path | None, typer.Option(help="The file with its token; else the one of your own servers.")
    ] = None,
    prompt: Annotated[
        bool, typer.Option("--prompt", help="TOOL is a prompt: print its text, filled in.")
    ] = False,
    json_: JsonOption = False,
) -> None:
    """Call one tool of a running `kernelblaster mcp --http` and print what it answers, as JSON.

    Without a tool, what the server offers: its instructions, tools with their arguments, prompts."""
    try:
        from kernelblaster.mcp import client
    except ImportError as error:
        raise KernelBlasterError(
            f"this needs the package {error.name}: pip install 'kernelblaster[mcp]'."
        ) from error
    given = dict(_argument(one) for one in arguments or ())
    token = _token(token_file or token_file_of(address))
    if tool is None:
        about = client.calling(address, token, client.describe)
        print(json.dumps(about, indent=1) if json_ else _listed(about))
    elif prompt:
        name = tool
        text = client.calling(address, token, lambda opened: client.prompt(opened, name, given))
        print(json.dumps({"text": text}) if json_ else printable(text))
    else:
        name = tool
        data = client.calling(address, token, lambda opened: client.call(opened, name, given, _say))
        print(json.dumps(data, indent=1))


def _argument(text: str) -> tuple[str, str]:
    """An argument as (name, value); the value may be in a file. Raises KernelBlasterError if it has no name,
    or the file cannot be read."""
    name, equals, value = text.partition("=")
    if not equals:
        raise KernelBlasterError(f"{printable(text[:100])}: give arguments as NAME=VALUE.")
    if value == "@-":
        return name, sys.stdin.read()
    if value.startswith("@"):
        try:
            return name, Path(value[1:]).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise KernelBlasterError(f"{value[1:]}: {getattr(error, 'strerror', None) or error}") from error
    return name, value


def _token(where: Path) -> str:
    from kernelblaster.serve.server import read_token

    if not where.is_file():
        raise KernelBlasterError(
            f"{where}: there is no such file; start a server with `kernelblaster mcp --http`, or name the "
            "file with its token (--token-file)."
        )
    return read_token(where)


def _say(words: str) -> None:
    """Shows what the tool is doing."""
    Terminal(stderr=True).print(words, style="dim", highlight=False, soft_wrap=True, markup=False)


def _listed(about: dict[str, Any]) -> str:
    """What a server offers, as a text to read."""
    lines = [printable(about["instructions"]).rstrip(), ""]
    for tool in about["tools"]:
        lines.append(f"{tool['name']}({_signature(tool['arguments'])})")
        lines += [f"    {line}" for line in printable(tool["description"]).splitlines()]
        for name, schema in tool["arguments"].get("properties", {}).items():
            if schema.get("description"):
                lines.append(f"      {name}: {printable(schema['description'])}")
    for prompt in about["prompts"]:
        lines.append(f"prompt {prompt['name']}({', '.join(prompt['arguments'])})")
    return "\n".join(lines)


def _signature(schema: dict[str, Any]) -> str:
    """The arguments of a tool by name, those that may be left out with a question mark."""
    needed = schema.get("required", ())
    return ", ".join(name if name in needed else f"{name}?" for name in schema.get("properties", {}))
