"""A task that no family of the expert covers, from PyTorch to a fast kernel: the answers were given by
someone who read only the hand-off's prompts (results/played.md), and are replayed here."""

import json
from pathlib import Path

from typer.testing import CliRunner

from kernelblaster.cli.main import app

ROOT = Path(__file__).parents[2]
ANSWERS = ROOT / "tests/policies/llm/data/masked_cumsum"


def test_a_scan_that_was_optimized_by_hand_off(compiler: str, tmp_path: Path) -> None:
    words = ["optimize", "core/level1/masked_cumsum", "--device", "emulated", "--gpu", "h200", "--json"]
    words += ["--kb", str(tmp_path / "kb.db"), "--runs", str(tmp_path / "runs"), "--replay", str(ANSWERS)]
    words += ["--rollouts", "1", "--choices", "1", "--budget", "3", "--iterations", "3"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    found = json.loads(result.output[result.output.index("{") :])
    assert found["applied"][0] == "register_resident_row"
    assert found["speedup"]["estimate"] > 4 and found["gain_over_first"] > 2
    assert found["models"]["calls"] == 0, "everything was recorded"
    kept = ROOT / "results/played/masked_cumsum.cu"
    assert Path(found["best"]).read_text() == kept.read_text(), "what was judged on a GPU"
