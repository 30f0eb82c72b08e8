"""What `import kernelblaster` offers, on the simulated world: from a task to a result, and ask and tell."""

import io
import math
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import kernelblaster as kb
from kernelblaster import opening
from kernelblaster.api.asking import AskTell
from kernelblaster.api.optimizing import step_line
from kernelblaster.errors import BadTask, KernelBlasterError, StoreError
from kernelblaster.records import Candidate, Evaluation, Task
from kernelblaster.records.step import Failed, Gained
from kernelblaster.sessions.log import Progress
from kernelblaster.store.run import open_run, run_folders
from tests.cli.test_breakage import TASK
from tests.test_optimize import World, WorldJudge

CANDIDATE = 'extern "C"\nvoid launch_gpu_implementation() {}\n'


class Modelling(WorldJudge):
    """The simulated world's judge as the emulated device would be: its times are modelled."""

    def __init__(self) -> None:
        super().__init__()
        self.device.name = "a device"

    def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
        for evaluation in super().evaluate_many(jobs):
            timing = evaluation.timing and evaluation.timing.model_copy(update={"modelled": True})
            yield evaluation.model_copy(update={"timing": timing})


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Where a run and its knowledge base are kept, in the simulated world."""

    @contextmanager
    def open_searching(*_: Any, **__: Any) -> Iterator[Modelling]:
        yield Modelling()

    monkeypatch.setattr(opening, "open_searching", open_searching)
    monkeypatch.setattr(sys.modules["kernelblaster.optimize"], "ExpertPolicy", lambda *_: World())
    monkeypatch.setenv("KERNELBLASTER_DATA", str(tmp_path / "data"))
    (tmp_path / "task.py").write_text(TASK)
    return {"knowledge": tmp_path / "kb.db", "runs": tmp_path / "runs"}


def test_the_public_names_are_listed_and_are_what_they_say() -> None:
    names = {"optimize", "compile", "evaluate", "profile", "bench", "KnowledgeBase", "load_task", "session"}
    assert names <= set(dir(kb))
    assert all(callable(getattr(kb, name)) for name in names)
    import kernelblaster.bench.bench  # noqa: F401  modules of the same name must not take their place

    assert kb.optimize.__name__ == "optimize" and kb.bench.__name__ == "bench"
    with pytest.raises(AttributeError):
        kb.nothing  # noqa: B018
    assert "optimize" in str(kb.__doc__)


def test_a_task_is_optimized_and_the_result_says_everything(places: dict[str, Any], tmp_path: Path) -> None:
    heard: list[kb.Progress] = []
    found = kb.optimize(tmp_path / "task.py", budget=20, on_step=heard.append, **places)
    assert found.verdict == "Accepted" and found.speedup > 1.5 and found.gain and found.gain > 1.5
    assert found.interval[0] <= found.speedup <= found.interval[1]
    assert found.source == "/".join(found.applied)
    assert len(found.trajectory) == len(heard) > 3
    assert {step.technique for step in found.trajectory} >= set(found.applied)
    assert found.trajectory[0].speedup or found.trajectory[0].failure
    assert found.run.parent == places["runs"] and found.finished and found.learned
    assert kb.load_run("last", runs=places["runs"]).source == found.source
    assert kb.load_run(found.run).speedup == found.speedup


def test_what_is_modelled_is_marked_wherever_it_is_shown(places: dict[str, Any], tmp_path: Path) -> None:
    found = kb.optimize(str(tmp_path / "task.py"), budget=4, **places)
    assert found.modelled
    assert "x modelled" in repr(found)
    html = found._repr_html_()
    assert "x modelled" in html and html.count("us modelled") == 2 and "<pre>" in html


def test_a_run_that_was_stopped_goes_on(places: dict[str, Any], tmp_path: Path) -> None:
    steps: list[kb.Progress] = []

    def stop(progress: kb.Progress) -> None:
        steps.append(progress)
        if len(steps) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kb.optimize(tmp_path / "task.py", budget=20, on_step=stop, **places)
    so_far = kb.load_run(runs=places["runs"])
    assert not so_far.finished
    ended = kb.resume("last", runs=places["runs"])
    assert ended.run == so_far.run and ended.finished and ended.speedup >= so_far.speedup


@pytest.mark.parametrize(("terminal", "listening"), [(True, False), (True, True), (False, False)])
def test_a_terminal_is_told_of_each_step_unless_somebody_listens(
    terminal: bool, listening: bool, places: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.StringIO()
    monkeypatch.setattr(written, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(sys, "stderr", written)
    kb.optimize(tmp_path / "task.py", budget=4, on_step=(lambda _: None) if listening else None, **places)
    lines = written.getvalue().splitlines()
    assert bool(lines) == (terminal and not listening)
    us = r"[\d.]+ us modelled"
    said = rf"kernelblaster: \d of 4 judged: \w+ (\d\.\d\dx modelled, {us}|\w+); best {us}"
    assert all(re.fullmatch(said, line) for line in lines)


def test_the_line_of_a_step_has_its_own_time_beside_the_best() -> None:
    step = Progress(
        phase="stepped",
        iteration=0,
        evaluations=3,
        evaluations_left=4,
        seconds=1.0,
        technique="block_shape",
        result=Gained(math.log(0.5)),
        own_us=300.0,
        best_us=150.0,
        modelled=True,
    )
    assert step_line(step) == (
        "3 of 7 judged: block_shape 0.50x modelled, 300.0 us modelled; best 150.0 us modelled"
    )
    failed = replace(step, result=Failed("Incorrect"), own_us=None)
    assert step_line(failed) == "3 of 7 judged: block_shape Incorrect; best 150.0 us modelled"


def test_a_start_that_fails_leaves_no_run(places: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(BadTask):
        kb.optimize("core/level1/nothing", **places)
    with pytest.raises(KernelBlasterError, match="is not one of h200, h100"):
        kb.optimize(tmp_path / "task.py", gpu="voodoo", **places)
    with pytest.raises(StoreError, match="there is no run"):
        kb.load_run(runs=places["runs"])
    assert run_folders(places["runs"]) == []


def test_a_session_in_which_nothing_was_told_leaves_no_run(places: dict[str, Any], tmp_path: Path) -> None:
    with kb.session(tmp_path / "task.py", **places):
        pass
    assert run_folders(places["runs"]) == []


def test_a_module_is_a_task_with_example_inputs(
    places: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kernelblaster.tasks import torch_programs

    asked: list[Any] = []

    def task_from_module(module: Any, inputs: Any, *, name: str | None = None) -> Task:
        asked.append((module, inputs))
        return kb.load_task(tmp_path / "task.py").model_copy(update={"name": "given"})

    monkeypatch.setattr(torch_programs, "task_from_module", task_from_module)
    module, inputs = torch.nn.ReLU(), [torch.randn(8)]
    found = kb.optimize(module, inputs=inputs, budget=2, **places)
    assert asked == [(module, inputs)] and found.task == "given"
    with pytest.raises(BadTask, match="needs example inputs"):
        kb.optimize(module, **places)
    with pytest.raises(BadTask, match="go with a module"):
        kb.optimize(tmp_path / "task.py", inputs, **places)


def test_the_optimized_module_has_the_parameters_of_the_given_one(
    places: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kernelblaster.api import result

    text = "import torch\nclass OptimizedModel(torch.nn.Linear): pass\ndef get_init_inputs(): return [3, 2]\n"
    monkeypatch.setattr(result, "export_run", lambda run, form: text)
    found = kb.optimize(tmp_path / "task.py", budget=2, **places)
    original = torch.nn.Linear(3, 2).eval()
    made = kb.OptimizeResult(found.run, original).module()
    x = torch.randn(4, 3)
    assert torch.equal(made(x), original(x)) and not made.training
    with pytest.raises(KernelBlasterError, match="do not fit"):
        kb.OptimizeResult(found.run, torch.nn.Linear(5, 2)).module()
    assert found.export(tmp_path / "it.py") == (tmp_path / "it.py").read_text() == text


def test_tasks_and_candidates_are_taken_as_text_and_as_files(tmp_path: Path) -> None:
    assert kb.load_task(TASK).source == TASK
    task = kb.load_task("core/level1/softmax")
    assert kb.load_task(task) is task
    assert kb.load_candidate(CANDIDATE).source == CANDIDATE
    (tmp_path / "it.cu").write_text(CANDIDATE)
    assert kb.load_candidate(tmp_path / "it.cu").source == CANDIDATE
    with pytest.raises(KernelBlasterError, match="does not define launch_gpu_implementation"):
        kb.load_candidate("int main() {\n}")


def test_evaluate_takes_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernelblaster.api import judging

    judged: list[Any] = []

    @contextmanager
    def open_judge(*_: Any, **__: Any) -> Iterator[Any]:
        yield type("Judge", (), {"evaluate": lambda self, task, source: judged.append((task, source))})()

    monkeypatch.setattr(judging, "open_judge", open_judge)
    kb.evaluate(TASK, CANDIDATE)
    assert judged[0][0].source == TASK and judged[0][1].source == CANDIDATE


def test_ask_and_tell(places: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with kb.session(tmp_path / "task.py", **places) as search:
        with pytest.raises(KernelBlasterError, match="no correct candidate yet"):
            search.ask()
        assert search.tell(Candidate(source="wrong")).outcome.kind == "Incorrect"
        search.tell(Candidate(source="first"))
        advice = search.ask()
        assert advice.options and advice.state in str(advice)
        promises = [option.promise for option in advice.options]
        assert promises == sorted(promises, reverse=True)
        offered = {option.optimization.technique for option in advice.options}
        assert "block_shape" in offered and not offered & set(advice.left_out)
        for useless in ("online_attention", "implicit_matrix_product", "split_operand_tensor_cores"):
            assert advice.left_out[useless] == "the task has nothing of the kind"
        told = search.tell(Candidate(source="good"), technique="my_own_technique")
        assert told == search.best and told.outcome.kind == "Accepted"
        assert search.ask().left_out["my_own_technique"] == "applied already"
        search.tell(Candidate(source="good/bad"), technique="block_shape")
        assert search.best == told
        assert "no faster" in search.ask().left_out["block_shape"]
        search.tell(Candidate(source="good/wrong"), technique="thread_coarsening")
        assert "thread_coarsening" not in search.ask().left_out, "it may be tried again"
    found = kb.load_run(search.run)
    assert found.finished and found.applied == ("my_own_technique",) and found.source == "good"
    assert [step.taken for step in found.trajectory] == [True, False, False]
    with kb.KnowledgeBase(places["knowledge"]) as knowledge:
        learned = {s.optimization.technique: s.prediction for s in knowledge.optimizations(advice.state)}
    assert learned["my_own_technique"].mean > 0.2


def test_a_session_goes_on_with_a_run_as_it_was(places: dict[str, Any], tmp_path: Path) -> None:
    with kb.session(tmp_path / "task.py", **places) as search:
        search.tell(Candidate(source="first"))
        search.tell(Candidate(source="good"), technique="my_own_technique")
        best, advice = search.best, str(search.ask())
    task = kb.load_task(tmp_path / "task.py")
    with (
        kb.KnowledgeBase(places["knowledge"]) as known,
        open_run(places["runs"], "last", writing=True) as run,
    ):
        again = AskTell(run, known, kb.Session(task, Modelling(), known, run, kb.Search()))
        assert again.best == best and str(again.ask()) == advice
        assert len([event for event in run.events if event.kind == "evaluation"]) == 2
        again.tell(Candidate(source="good/bad"), technique="unrolling")
        assert [event.key for event in run.events if event.kind == "steps"] == ["0", "1"]
