"""Looking back at runs: the best, the way, what was learned, and two of them side by side."""

import json
from pathlib import Path
from typing import Any

import pytest

from kernelblaster.errors import StoreError
from kernelblaster.knowledge.events import Observed, OptimizationAdded, Provenance, StateAdded
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.records import Candidate, Evaluation, Incorrect, Optimization, Slower, State, Step
from kernelblaster.records.outcome import Speedup
from kernelblaster.store.comparison import compare
from kernelblaster.store.history import History
from kernelblaster.store.results import leave_results
from kernelblaster.store.run import Run, create_run, open_run
from kernelblaster.store.subject import keep_task, task_of
from kernelblaster.tasks.catalog import load_file

TASK = """import torch, torch.nn as nn
n = 4096
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.randn(n)]
def get_init_inputs():
    return []
"""


def judge(run: Run, source: str, speedup: float | None) -> Candidate:
    candidate = Candidate(source=source)
    outcome: Any = Incorrect(reason="far off", evidence="by a half\nand more")
    if speedup is not None:
        found = Speedup(estimate=speedup, low=speedup, high=speedup, confidence=0.99)
        outcome = Slower(speedup=found)
    evaluation = Evaluation(task="t", candidate=candidate.digest, device="d", outcome=outcome, seconds=0)
    data = {"source": run.files.put(source), "evaluation": json.loads(evaluation.model_dump_json())}
    run.once("evaluation", candidate.code, lambda: data)
    return candidate


def step(
    run: Run, place: str, technique: str, result: float | str, knowledge: KnowledgeBase, child: str = ""
) -> None:
    made = Step(
        id=place,
        state="slow",
        technique=technique,
        predicted=1.5,
        result=result,
        taken=isinstance(result, float),
        child=child,
    )
    run.once("steps", place, lambda: {"steps": [made.model_dump(mode="json")]})
    change = Observed.model_validate({"state": "slow", "technique": technique, "result": result})
    knowledge.record([change], Provenance(run=run.name))


def finished_run(root: Path, knowledge: KnowledgeBase, technique: str, seed: int) -> str:
    with create_run(root, task="t", dtype="float32", search={"seed": seed, "steps": 4}) as run:
        run.once("theta", "0", lambda: {"version": knowledge.version})
        judge(run, "first\n", 0.5)
        step(run, "0/0/0/0", technique, 0.4, knowledge)
        best = judge(run, f"better by {technique}\n", 0.8)
        failed = judge(run, f"wrong {seed}\n", None)
        step(run, "0/0/1/0", "wrong", "Incorrect", knowledge, failed.code)
        gap = {"state": "slow", "technique": technique, "cause": "x", "sentence": "it was not bound by it."}
        run.once("update", "0", lambda: {"gaps": [gap], "changes": []})
        run.once("finished", "end", lambda: {"best": run.files.put(best.source)})
        leave_results(run, best, [technique], knowledge)
        return run.name


@pytest.fixture
def knowledge(tmp_path: Path):  # type: ignore[no-untyped-def]
    with KnowledgeBase(tmp_path / "kb.db") as opened:
        opened.record([StateAdded(state=State(name="slow", primary="latency"))])
        for name in ("tile", "unroll", "wrong"):
            made = Optimization(technique=name, title=name, description="", predicted=1.5)
            opened.record([OptimizationAdded(state="slow", optimization=made, weight=1)])
        yield opened


def test_a_run_leaves_the_best_the_way_and_what_was_learned(tmp_path: Path, knowledge: KnowledgeBase) -> None:
    name = finished_run(tmp_path, knowledge, "tile", 0)
    folder = tmp_path / name
    assert (folder / "best.cu").read_text() == "better by tile\n"
    way = json.loads((folder / "trajectory.json").read_text())
    assert way["applied"] == ["tile"] and [s["technique"] for s in way["steps"]] == ["tile", "wrong"]
    assert way["steps"][0]["speedup"] == pytest.approx(1.4918, abs=1e-4)
    assert way["steps"][1]["failure"] == "Incorrect" and way["steps"][1]["why"] == "far off: by a half"
    table = (folder / "trajectory.md").read_text()
    assert "| 0/0/0/0 | slow | tile | 1.50x | 1.49x | taken |" in table
    assert "| Incorrect | far off: by a half |" in table
    learned = json.loads((folder / "learned.json").read_text())
    assert len(learned["events"]) == 2 and {t["technique"] for t in learned["techniques"]} == {
        "tile",
        "wrong",
    }
    told = (folder / "learned.md").read_text()
    assert "| slow | tile | 1.50x |" in told and "it was not bound by it." in told


def test_what_others_learned_at_the_same_time_is_not_told_as_this_runs(
    tmp_path: Path, knowledge: KnowledgeBase
) -> None:
    with create_run(tmp_path) as run:
        run.once("theta", "0", lambda: {"version": knowledge.version})
        best = judge(run, "first\n", 0.5)
        step(run, "0/0/0/0", "tile", 0.1, knowledge)
        knowledge.observe("slow", "unroll", 0.9, Provenance(run="another"))
        leave_results(run, best, [], knowledge)
        learned = History(run).learned
    assert learned is not None and [t["technique"] for t in learned["techniques"]] == ["tile"]


def test_the_best_of_an_unfinished_run_is_the_fastest_so_far(tmp_path: Path) -> None:
    with create_run(tmp_path) as run:
        history = History(run)
        assert history.best is None and history.steps == [] and history.applied == ()
        with pytest.raises(StoreError, match="no correct candidate yet"):
            history.best_candidate()
        judge(run, "slow", 0.5)
        judge(run, "fast", 0.9)
        judge(run, "wrong", None)
        assert History(run).best_candidate()[0].source == "fast"


def test_two_runs_side_by_side(tmp_path: Path, knowledge: KnowledgeBase) -> None:
    names = [finished_run(tmp_path, knowledge, t, seed) for seed, t in enumerate(("tile", "unroll"))]
    with open_run(tmp_path, names[0]) as one, open_run(tmp_path, names[1]) as other:
        found = compare(History(one), History(other))
    assert found["settings"] == {"seed": [0, 1]}
    assert [best["applied"] for best in found["best"]] == [["tile"], ["unroll"]]
    assert found["best"][0]["found_after"] == 2 and found["best"][0]["gain_over_first"] == 1.6
    assert [s["technique"] for s in found["trajectory"][0]] == ["tile", "unroll"]
    expected = {row["technique"]: row["expected"] for row in found["learned"]}
    assert expected["tile"][1] is None and expected["unroll"][0] is None and None not in expected["wrong"]
    assert "-better by tile" in found["source"] and "+better by unroll" in found["source"]


def test_a_run_keeps_its_task_whatever_becomes_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "task.py"
    file.write_text(TASK)
    task = load_file("a task", file)
    with create_run(tmp_path / "runs", task=str(file)) as run:
        keep_task(run, task)
        file.write_text(TASK.replace("relu", "tanh"))
        task_of(run)
        (run.folder / "task.py").write_text("meddled with")
        found = task_of(run)
    assert found.source == TASK and found.name == "a task" and found.signature == task.signature


def test_a_run_without_a_task_says_so(tmp_path: Path) -> None:
    with create_run(tmp_path) as run, pytest.raises(StoreError, match="does not say which task"):
        task_of(run)
