"""What benchmarks/faults.py counts as a run that ended the same in spite of kills."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
from faults import Kind, Place, Tally, kill_often

ENDS, STAYS = ["pass"], ["import time; time.sleep(60)"]


class Scripts(Place):
    """Where Python code is run in place of commands."""

    def start(self, words: list[str]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([sys.executable, "-c", *words])


class Unwatched(random.Random):
    """Kills at the last moment, and never looks for what lives on: it would find pytest's own processes."""

    def random(self) -> float:
        return 1.0


def counted(tmp_path: Path, words: list[str], seconds: float, result: str = "same") -> Tally:
    kind = Kind("fake", lambda _: words, lambda _: ENDS, lambda _: result, seconds, expected="same")
    tally = Tally()
    kill_often(kind, Scripts(tmp_path), tmp_path, Unwatched(), tally, 1)
    return tally


def test_a_run_that_ends_after_a_kill_counts(tmp_path: Path) -> None:
    tally = counted(tmp_path, STAYS, 0.4)
    assert (tally.kills, tally.watched, tally.same, tally.ended) == (1, 0, 1, 1)


def test_a_run_that_nobody_killed_does_not_count(tmp_path: Path) -> None:
    tally = counted(tmp_path, ENDS, 60.0)
    assert (tally.kills, tally.same, tally.ended) == (0, 0, 0)


def test_a_run_that_nobody_killed_counts_if_it_came_to_something_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tally = counted(tmp_path, ENDS, 60.0, result="other")
    assert (tally.kills, tally.same, tally.ended) == (0, 0, 1)
    assert "other; and not same" in capsys.readouterr().out
