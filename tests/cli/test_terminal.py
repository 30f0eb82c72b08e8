"""Texts and names on a narrow terminal, and in a pipe."""

import io

import pytest
from rich.console import Console
from rich.table import Table

from kernelblaster.cli.terminal import Terminal, break_name, wrap_hanging

NARROW = Console(file=io.StringIO(), force_terminal=True, width=40)
PIPE = Console(file=io.StringIO(), force_terminal=False, width=40)
TEXT = "host code of candidates has no files, programs, threads or network"


def test_further_lines_begin_where_the_first_does_and_words_stay_whole() -> None:
    lines = wrap_hanging(NARROW, TEXT, 20).split("\n")
    assert all(line.startswith(" " * 20) and len(line) <= 40 for line in lines[1:]) and len(lines) == 4
    assert " ".join(line.strip() for line in lines) == TEXT
    assert wrap_hanging(PIPE, TEXT, 20) == TEXT


def test_a_name_is_broken_between_its_parts() -> None:
    assert break_name(NARROW, "core/level1/cosine_similarity", 20) == "core/level1/\ncosine_similarity"
    assert break_name(NARROW, "core/level1/relu", 20) == "core/level1/relu"
    assert break_name(PIPE, "core/level1/cosine_similarity", 20) == "core/level1/cosine_similarity"


def test_a_table_in_a_pipe_is_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("name", box=None)
    table.add_row("x" * 150)
    Terminal().show(table)
    assert "x" * 150 in capsys.readouterr().out
