"""Every outcome is known to people, scripts, models and the knowledge base: nothing forgets a new one."""

import re
from pathlib import Path
from typing import get_args

import pytest

from kernelblaster.cli import show
from kernelblaster.cli.show import EXIT_CODES
from kernelblaster.cli.terminal import Terminal
from kernelblaster.devices import modelled_metrics
from kernelblaster.devices.ncu import QUICK_METRICS
from kernelblaster.knowledge import Failure
from kernelblaster.mcp.summaries import FURTHER
from kernelblaster.policies.expert.gaps import FAILURES
from kernelblaster.policies.llm.feedback import outcome_feedback
from kernelblaster.records import Outcome
from kernelblaster.records.outcome import TEACHES_NOTHING

DOCS = Path(__file__).parents[2] / "docs"
KINDS = {kind.__name__: kind for kind in get_args(get_args(Outcome)[0])}
FAILED = {name for name, kind in KINDS.items() if "speedup" not in kind.model_fields}


def test_lines_of_a_verdict_are_wrapped_beside_their_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "primary workload run, 0.59% of the blocks [all], 245760 elements compared; also at 3 drawn sizes"
    show.print_fact("", text)
    assert capsys.readouterr().out == f"{'':13}{text}\n", "whole in a pipe"
    terminal = Terminal()
    terminal._force_terminal, terminal.no_color, terminal.width = True, True, 60
    monkeypatch.setattr(show, "out", terminal)
    show.print_fact("sizes", text)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 1 and lines[0].startswith("  sizes      primary")
    assert all(line.startswith(" " * 13) and len(line) <= 60 for line in lines[1:])


def test_every_outcome_has_an_exit_code() -> None:
    assert set(EXIT_CODES) == set(KINDS.values())


def test_the_table_of_exit_codes_is_complete() -> None:
    rows = re.findall(r"^\| (\d+) \|(.*)$", (DOCS / "optimize.md").read_text(), re.MULTILINE)
    told = {kind: int(code) for code, words in rows for kind in re.findall(r"`([A-Z]\w+)`", words)}
    assert told == {kind.__name__: code for kind, code in EXIT_CODES.items()}


def test_the_list_of_metrics_is_complete() -> None:
    """Those that a modelled profile has, and those that states are named from."""
    text = (DOCS / "judge.md").read_text()
    source = Path(modelled_metrics.__file__).read_text()
    modelled = set(re.findall(r'yield [\w" ]+, "([^"{]+)"', source))
    assert len(modelled) > 20
    assert {name for name in modelled | set(QUICK_METRICS.values()) if f"`{name}`" not in text} == set()


def test_every_failure_can_be_learned_and_explained() -> None:
    assert set(get_args(Failure)) - {"Inapplicable"} == FAILED - TEACHES_NOTHING == set(FAILURES)


def test_every_failure_has_a_next_step_for_agents() -> None:
    assert set(FURTHER) == FAILED


def test_the_glossary_has_every_outcome() -> None:
    (row,) = (
        line for line in (DOCS / "glossary.md").read_text().splitlines() if line.startswith("| outcome |")
    )
    assert {name for name in KINDS if name not in row} == set()


def test_every_failure_has_words_for_a_model() -> None:
    for name in FAILED:
        fields = dict.fromkeys(KINDS[name].model_fields, "because") | {"kind": name, "limit_s": 1.0}
        assert outcome_feedback(KINDS[name].model_construct(**fields), "")
