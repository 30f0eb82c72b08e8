"""What prompts say of the task, the device and the code: what is true here, and nothing that is not."""

import json
import threading
import time
from math import log
from pathlib import Path

import pytest

from kernelblaster.knowledge import KnowledgeBase
from kernelblaster.knowledge.retrieval import Precedent
from kernelblaster.models.answer_parser import read
from kernelblaster.models.handoff import HandOff
from kernelblaster.models.request import ChatMessage, Request
from kernelblaster.policies.llm.digest import digest
from kernelblaster.policies.llm.facts import change_contract, compared_at, contract
from kernelblaster.policies.llm.gpu_words import gpu, only_on_hardware
from kernelblaster.policies.llm.initial_writer import draft_question
from kernelblaster.policies.llm.knowledge_view import entry_text, results
from kernelblaster.policies.llm.neutral import neutral
from kernelblaster.policies.llm.proposer import Inquiry, proposer_question
from kernelblaster.policies.llm.reference_words import computation, module_rules, precision
from kernelblaster.policies.llm.rewriting import Rewrite
from kernelblaster.records import Metric, Optimization, State, Task
from tests.policies.llm.played import FUSED, VECTOR
from tests.policies.llm.scenes import FLOOR_BYTES, SessionInMemory, case, relu, scene_of


def task_with(forward: str, above: str = "", constructed: str = "[]") -> Task:
    source = (
        f"import torch\neps = 1e-5\nrows = 9\n{above}class Model(torch.nn.Module):\n"
        f"    def forward(self, x):\n        return {forward}\n\n\n"
        "def get_inputs():\n    return [torch.randn(rows)]\n\n\n"
        f"def get_init_inputs():\n    return {constructed}\n"
    )
    return relu()[0].task.model_copy(update={"source": source})


def test_the_emulated_device_says_what_it_cannot_run() -> None:
    spec = SessionInMemory().gpu
    emulated, real = (gpu(spec, modelled=modelled) for modelled in (True, False))
    can, cannot = emulated.split("with tensor maps")
    for words in ("mbarrier", "cp.async.bulk", "clusters", "cooperative launches", "within 1.5x"):
        assert words in can
    for words in ("cp.async.bulk.tensor", "wgmma", "malloc", "no verdict"):
        assert words in cannot
    assert "emulated" not in real and "wgmma" in real
    assert only_on_hardware() == {"tf32_operands", "warpgroup_matrix_multiply"}


def test_tf32_is_spoken_of_where_something_could_use_it() -> None:
    assert precision(task_with("torch.cumsum(x, 0)")) == ""
    assert precision(task_with("x @ x")) == precision(task_with("torch.mm(x, x)")) == ", nor TF32"
    assert "TF32" not in contract(task_with("x.exp()")) + change_contract(task_with("x.exp()"))


def test_modules_without_parameters_and_modes_have_no_rules_for_them() -> None:
    assert module_rules(task_with("torch.cumsum(x, 0)")) == ""
    assert "training mode" in module_rules(task_with("torch.nn.functional.batch_norm(x, None, None)"))
    assert "constructor" in module_rules(case("largest").task)
    asked = draft_question(scene_of(relu()[0]))
    assert asked.sections["module_rules"] == ""


def test_the_computation_is_the_module_without_its_inputs() -> None:
    shown = computation(task_with("x * eps", above="def twice(x):\n    return 2 * x\n"))
    assert "eps = 1e-5" in shown and "def twice" in shown and "return x * eps" in shown
    for left_out in ("import", "rows", "get_inputs", "get_init_inputs"):
        assert left_out not in shown
    assert "return [eps]" in computation(task_with("x", constructed="[eps]"))
    cuda = relu()[0].task.model_copy(update={"kind": "cuda", "source": FUSED})
    assert FUSED.strip() in computation(cuda)


def test_sizes_are_told_in_a_line_and_those_that_stay_may_be_fixed() -> None:
    task = case("middle").task
    assert "a_0,a_1,b_1 = 8192,1024,4096 (timed); 3031,349,1269;" in change_contract(task)
    assert "may be taken as fixed" not in contract(task)
    always = [w.model_copy(update={"sizes": {**w.sizes, "b_1": 4096}}) for w in task.workloads]
    fixed = task.model_copy(update={"workloads": tuple(always)})
    assert "a_0,a_1 = 8192,1024 (timed); 3031,349;" in change_contract(fixed)
    assert "always b_1=4096" in change_contract(fixed) and "may be taken as fixed" in contract(fixed)


def test_the_verifier_knows_at_which_sizes_results_were_compared() -> None:
    task = relu()[0].task
    assert compared_at(task, modelled=True).startswith("x_0=5, x_1=37 alone, on an emulated device")
    assert "4096,2048 (timed); 1515,697" in compared_at(task, modelled=False)


def test_a_pipe_that_names_a_state_has_its_number() -> None:
    profile = relu()[0].profile
    busy = Metric(name="Pipe alu", unit="%", value=71.0, tier="modelled")
    metrics = tuple(busy if m.name == busy.name else m for m in profile.kernels[0].metrics)
    kernel = profile.kernels[0].model_copy(update={"metrics": metrics})
    told = digest(profile.model_copy(update={"kernels": (kernel,)}), FLOOR_BYTES)
    assert "integer pipe 71%" in told[1].text and "90% of the memory's peak" in told[0].text


@pytest.mark.parametrize(
    ("value", "words"), [(1.149, ", 1.15 waves of blocks"), (2979.4, ", 2979 waves of blocks"), (None, "")]
)
def test_the_waves_of_a_launch_are_told_where_they_are_known(value: float | None, words: str) -> None:
    profile = relu()[0].profile
    metrics = [m for m in profile.kernels[0].metrics if m.name != "Waves Per SM"]
    if value is not None:
        metrics.append(Metric(name="Waves Per SM", unit="", value=value, tier="modelled"))
    kernel = profile.kernels[0].model_copy(update={"metrics": tuple(metrics)})
    told = digest(profile.model_copy(update={"kernels": (kernel,)}), FLOOR_BYTES)
    assert f"10 registers{words}\n" in told[1].text


def test_known_techniques_are_described_to_the_proposer() -> None:
    one = relu()[0]
    inquiry = Inquiry(one.candidate, one.target, one.profile, FLOOR_BYTES)
    sections = proposer_question(scene_of(one), inquiry).sections
    told = "\n".join(piece.text for piece in sections["known"])  # type: ignore[union-attr]
    assert "Give each thread several outputs" in told and "Needs: many more threads than the GPU" in told
    assert "never tried" not in told
    assert sections["beyond"] == "" and "tensor_core" not in told  # the task has no products


def test_a_recipe_is_told_by_where_it_ends_and_not_as_a_speedup(tmp_path: Path) -> None:
    """The knowledge base keeps the speed that a recipe reached, relative to the floor's."""
    with KnowledgeBase(tmp_path / "kb.db") as knowledge:
        knowledge.add_state(State(name="slow", primary="latency"))
        for name, gained in (("tile", 0.5), ("fuse + tile", log(0.3))):
            technique = Optimization(technique=name, title=name, description="", predicted=1.2)
            knowledge.add_optimization("slow", technique)
            for _ in range(40):
                knowledge.observe("slow", name, gained)
        entries = knowledge.content().entries["slow"]
    recipe, single = (entry_text(entries[name], "sm_90a") for name in ("fuse + tile", "tile"))
    assert "fuse + tile: expected 0.31 of the floor's speed (0.30" in recipe and "0.31x" not in recipe
    assert "tile: expected 1.6" in single and "x (" in single
    assert "0.30 of the floor's speed" in "".join(results([Precedent(entries["fuse + tile"], 0.0)]))


def test_neutral_code_is_indented_where_there_are_no_braces() -> None:
    shown = neutral(
        "__global__ void k(float* a,\nint n) {\nfor (int i = 0; i < n; ++i)\nif (i > 3\n&& n)\n"
        "a[i] =\n1;\nelse {\na[i] = 2;\n}\nif (n) {\na[0] = 3;\n} else\na[0] = 4;\na[1] = 5;\n}\n"
    )
    assert shown == (
        "__global__ void kernel_1(float* a,\n  int n) {\n  for (int i = 0; i < n; ++i)\n    if (i > 3\n"
        "      && n)\n      a[i] =\n        1;\n  else {\n    a[i] = 2;\n  }\n  if (n) {\n    a[0] = 3;\n"
        "  } else\n    a[0] = 4;\n  a[1] = 5;\n}\n"
    )


@pytest.mark.parametrize("declined", [True, False])
def test_texts_of_edits_can_be_files_and_nothing_is_needed_to_decline(tmp_path: Path, declined: bool) -> None:
    request = Request(role="lowerer", messages=(ChatMessage(speaker="user", text="x"),), schema=Rewrite)

    def person() -> None:
        while not (places := list(tmp_path.glob("*-lowerer-*"))):
            time.sleep(0.01)
        (places[0] / "new.txt").write_text(VECTOR[0]["replace"])
        edit = {"search": VECTOR[0]["search"], "replace": "@file:new.txt"}
        changes = {} if declined else {"edits": [edit]}
        answer = {"applicable": not declined, "summary": "so", **changes}
        (places[0] / "answer.json").write_text(json.dumps(answer))

    thread = threading.Thread(target=person)
    thread.start()
    answer = read(request, HandOff(tmp_path, say=lambda _: None, poll_s=0.01).answer(request))
    thread.join()
    assert answer.also_changed == []
    assert [edit.replace for edit in answer.edits] == ([] if declined else [VECTOR[0]["replace"]])
