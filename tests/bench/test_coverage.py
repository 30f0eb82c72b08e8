"""What a study is about: covered tasks, drawn and split among themselves; the others are named."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelblaster.bench.ablation import Ablation
from kernelblaster.bench.coverage import covered
from kernelblaster.bench.jobs import Setup
from kernelblaster.bench.suite import entries_of
from kernelblaster.cli.main import app
from kernelblaster.errors import BadTask
from kernelblaster.sessions.settings import Search

REFUSED = {
    "level1/2_broken": "broken",
    "level1/3_constant": "unfit",
    "level1/4_random": "unfit",
    "level2/2_uncovered": "uncovered",
    "level2/3_not_a_task": "broken",
}
SETUP = Setup(device="emulated", search=Search(), knowledge="")
SHORT = ("--device", "emulated", "--budget", "1", "--seeds", "0", "--workers", "1")


@pytest.mark.parametrize("workers", [1, 2])
def test_only_what_the_expert_covers_is_kept(checkout: Path, workers: int) -> None:
    heard: list[int] = []
    entries = entries_of([f"kernelbench:{checkout}"])
    kept, left_out = covered(entries, SETUP, workers, heard.append)
    assert [entry.name.partition(":")[2] for entry in kept] == ["level1/1_relu", "level2/1_scaled_sum"]
    assert {one.name.partition(":")[2]: one.status for one in left_out} == REFUSED
    assert "sort" in next(one.reason for one in left_out if one.status == "uncovered")
    assert heard == list(range(1, 8))


def test_a_study_draws_from_the_covered_tasks_and_lists_the_others(
    compiler: str, checkout: Path, tmp_path: Path
) -> None:
    words = ["ablate", f"kernelbench:{checkout}", "--studies", "depth", "--folder", str(tmp_path / "a")]
    options = [*SHORT, "--subset", "1", "--choices", "1", "--near-floor", "1.2", "--explained", "0"]
    done = CliRunner().invoke(app, [*words, *options])
    assert done.exit_code == 0, done.output
    with Ablation.open(tmp_path / "a") as opened:
        plan = opened.plan
        assert len(plan.entries) == 2 and len(plan.left_out) == 5
        assert {result.status for result in opened.results.values()} == {"valid"}
        assert len(opened.results) == 8
    kept = list((tmp_path / "a" / "verdicts").rglob("*.json"))
    assert len(kept) == 2  # four arms of two tasks, which all begin with the same candidate
    search = plan.setup.search
    assert (search.choices, search.near_floor, search.explained) == (1, 1.2, 0)
    page, text = ((tmp_path / "a" / f"studies.{kind}").read_text() for kind in ("html", "md"))
    for shown in (done.output, page.replace("<wbr>", ""), text):
        assert all(task in shown for task in REFUSED) and "sort" in shown
    again = CliRunner().invoke(app, [*words, *options, "--json"])
    assert again.exit_code == 0, again.output
    assert [one["status"] for one in json.loads(again.stdout)["left_out"]] == list(REFUSED.values())


def test_a_suite_without_a_covered_task_is_refused(checkout: Path, tmp_path: Path) -> None:
    task = checkout / "KernelBench" / "level2" / "2_uncovered.py"
    done = CliRunner().invoke(app, ["ablate", str(task), *SHORT, "--folder", str(tmp_path / "a")])
    assert isinstance(done.exception, BadTask) and "sort" in str(done.exception)
    assert not (tmp_path / "a").exists()
