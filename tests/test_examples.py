"""The example scripts do what they say. Those that compile are left to whoever runs them, but one."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_reading_and_merging_a_knowledge_base(capsys: pytest.CaptureFixture[str]) -> None:
    loaded("knowledge_base").main()
    told = capsys.readouterr().out
    assert "merged: 1 new events" in told and "merged again: 0 new events" in told


def test_a_task_from_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    loaded("task_from_a_file").main(str(EXAMPLES / "row_scale.py"))
    told = capsys.readouterr().out
    assert "const float* x," in told and "268 MB" in told and "fit to be scored" in told


@pytest.mark.parametrize("name", ["compare_two_runs", "custom_loop", "judge_a_kernel"])
def test_the_others_can_be_imported(name: str) -> None:
    """Whatever they use is there; `judge_a_kernel` and its like take seconds of a compiler to run."""
    assert callable(loaded(name).main)


def test_two_runs_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from kernelblaster.testing.made_bench import made_bench

    made_bench(tmp_path / "bench", tasks=3, steps=3)
    runs = sorted(path.parent for path in (tmp_path / "bench").rglob("*/events.jsonl"))
    loaded("compare_two_runs").main([str(runs[0]), str(runs[1])])
    assert "candidates, by" in capsys.readouterr().out
