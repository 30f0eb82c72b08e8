"""Names and texts of others stay names and texts wherever they are written."""

import io

import pytest
from rich.table import Table
from rich.text import Text

from kernelblaster.cli.terminal import Terminal, plain
from kernelblaster.plain_text import comment, csv_cell, markdown, one_line, printable

HOSTILE = [
    "a\nimport os; os.system('x')",
    "a\r\nint main() {}",
    "a\x0bb\x0cc\x85d\u2028e\u2029f",
    "ends in a backslash \\",
    "ends in a trigraph ??/",
    "\x1b]0;title\x07 \x1b[2J \x9b31m",
    "\u202etxt.exe \u2066x",
    "</script><script>alert(1)</script>",
    "[click](javascript:alert(1)) ![x](http://host/x.png) | cell",
    "[bold red]markup[/] [link=http://host]x[/link]",
    "nul \x00 and del \x7f",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_comment_is_one_line_of_printable_text(text: str) -> None:
    line = comment(text)
    assert len(f"# {line}".splitlines()) == 1 and line.replace("\t", "").isprintable()
    assert not line.endswith(("\\", "??/"))
    exec(compile(f"# {line}\nfound = 1", "x.py", "exec"), found := {})
    assert found["found"] == 1


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_gets_neither_html_nor_links_nor_cells(text: str) -> None:
    cell = markdown(text)
    assert "<" not in cell and "|" not in cell and "\n" not in cell and "\x1b" not in cell
    assert "[" not in cell.replace("\\[", "")


@pytest.mark.parametrize("text", HOSTILE)
def test_a_terminal_gets_no_control_characters_and_no_markup(text: str) -> None:
    file = io.StringIO()
    terminal = Terminal()
    terminal.file = file
    table = Table("name")
    table.add_row(text)
    for thing in (text, Text(text), table):
        terminal.print(thing, soft_wrap=True)
    terminal.print(f"[bold]known[/bold] {plain(text)}", markup=True)
    shown = file.getvalue()
    assert all(character == "\n" or character.isprintable() for character in shown)
    assert "[/]" not in text or shown.count("[/]") == 4


def test_plain_words_stay_as_they_are() -> None:
    words = "shared_memory_tiling 2.5x, a*b & c → Ω"
    assert printable(words) == one_line(words) == comment(words) == markdown(words) == words
    assert printable("two\nlines\tand a tab") == "two\nlines\tand a tab"


def test_a_spreadsheet_gets_no_formula() -> None:
    assert csv_cell("=cmd()") == "'=cmd()" and csv_cell("relu") == "relu" and csv_cell(-1.5) == -1.5
