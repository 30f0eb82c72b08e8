"""A kernel that someone wrote who read only the hand-off's prompts (results/played.md): the judge still
accepts it."""

import json
from pathlib import Path

from typer.testing import CliRunner

from kernelblaster.cli.main import app

KERNEL = Path(__file__).parents[2] / "results/played/masked_cumsum.cu"


def test_a_scan_that_was_optimized_by_hand_off(compiler: str) -> None:
    words = ["evaluate", "core/level1/masked_cumsum", str(KERNEL), "--device", "emulated", "--gpu", "h200"]
    result = CliRunner().invoke(app, [*words, "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["outcome"]["speedup"]["estimate"] > 4
