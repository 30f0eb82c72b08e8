"""The example scripts do what they say. Those that compile are left to whoever runs them, but one."""

import importlib.util
import json
import sys
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


def test_the_notebook(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its cells one after the other, with fewer candidates and rows. What it shows is kept in the file."""
    cells = json.loads((EXAMPLES / "first_steps.ipynb").read_text())["cells"]
    codes = [cell for cell in cells if cell["cell_type"] == "code"]
    shown = [output["output_type"] for cell in codes for output in cell["outputs"]]
    assert shown.count("execute_result") == 3 and set(shown) == {"execute_result", "stream"}
    monkeypatch.chdir(tmp_path)
    notebook = ModuleType("notebook")
    monkeypatch.setitem(sys.modules, "notebook", notebook)
    for cell in codes:
        text = "".join(cell["source"]).replace("budget=6", "budget=2").replace("budget=3", "budget=1")
        text = text.replace("randn(4096,", "randn(256,")
        exec(compile(text, "first_steps.ipynb", "exec"), notebook.__dict__)
    assert "applied: " in capsys.readouterr().out
    assert {"add_norm.cu", "fast_add_norm.py"} <= {path.name for path in (tmp_path / "first-steps").iterdir()}
    assert "modelled" in notebook.found._repr_html_() or not notebook.found.modelled
