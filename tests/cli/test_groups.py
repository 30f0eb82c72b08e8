"""Option groups: their fields are options of the verb, which gets them together."""

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from kernelblaster.cli.groups import grouped


@dataclass(frozen=True)
class Colours:
    """What a picture is painted with."""

    line: Annotated[str, typer.Option("--line", help="Of lines.")] = "black"
    shades: Annotated[list[int] | None, typer.Option(min=0)] = None


@grouped
def paint(subject: str, colours: Colours, large: bool = False) -> None:
    """Paint something."""
    typer.echo(f"{subject} {colours.line} {colours.shades} {large}")


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["tree"], "tree black None False"),
        (["tree", "--line", "red", "--shades", "1", "--shades", "2", "--large"], "tree red [1, 2] True"),
    ],
)
def test_a_verb_gets_its_groups(words: list[str], printed: str) -> None:
    app = typer.Typer()
    app.command()(paint)
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, result.output.strip()) == (0, printed)


def test_help_has_the_fields_and_checks_are_kept() -> None:
    app = typer.Typer(rich_markup_mode=None)
    app.command()(paint)
    told = CliRunner().invoke(app, ["--help"]).output
    assert "--line" in told and "Of lines." in told and "Paint something." in told and "colours" not in told
    assert CliRunner().invoke(app, ["tree", "--shades", "-1"]).exit_code == 2
