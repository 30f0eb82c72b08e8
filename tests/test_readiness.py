from pathlib import Path

from kernelblaster.readiness import readiness_of
from kernelblaster.records import Candidate, Fitness, Rejected, RuntimeFailed
from kernelblaster.search.first_candidate import not_correct
from kernelblaster.tasks.catalog import load_task
from kernelblaster.tasks.fitness import fitness_of

USERS = Path(__file__).parent / "tasks" / "data" / "users"


def test_every_verb_works_on_a_file_with_literals() -> None:
    task = load_task(str(USERS / "literal_sizes.py"))
    assert all(verb.works for verb in readiness_of(task, fitness_of(task)))


def test_what_the_expert_does_not_cover_can_be_done_otherwise() -> None:
    verbs = {v.verb: v.why for v in readiness_of(load_task(str(USERS / "moe_router.py")), Fitness())}
    assert "does not cover the places that topk.default finds" in (verbs["optimize"] or "")
    assert "--model" in (verbs["optimize"] or "") and "kernelblaster evaluate" in (verbs["optimize"] or "")
    assert verbs["bench"] == verbs["optimize"]
    assert verbs["optimize --model"] is None and verbs["evaluate --device emulated"] is None


def test_an_unfit_task_is_refused_by_all() -> None:
    task = load_task(str(USERS / "literal_sizes.py"))
    unfit = readiness_of(task, Fitness(problems=("random: two runs differ",)))
    assert {verb.why for verb in unfit} == {"unfit to be scored: random: two runs differ"}


def test_an_own_kernel_that_breaks_a_rule_is_refused_by_its_own_line(tmp_path: Path) -> None:
    (tmp_path / "own.cu").write_text(
        "#include <iostream>\n__global__ void scale(float* y, const float* x, int n) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = 2 * x[i];\n}\n"
        "void run(float* y, const float* x, int n) { scale<<<(n + 255) / 256, 256>>>(y, x, n); }\n"
    )
    task = load_task(str(tmp_path / "own.cu"))
    verbs = {verb.verb: verb.why for verb in readiness_of(task, Fitness())}
    assert (verbs["optimize"] or "").startswith(
        "line 1: <iostream> may not be included: it runs a constructor"
    )
    assert verbs["evaluate"] == verbs["bench"] == verbs["optimize"] and verbs["export --format cu"] is None
    rejected = Rejected(reason="forbidden-include", evidence="line 5: <iostream> may not be included.\nmore")
    told = "is not correct (Rejected: forbidden-include: line {}: <iostream> may not be included)."
    own = not_correct(task, Candidate(source=task.source), rejected)
    assert own == f"{task.name}: the file, as it is, {told.format(1)}"
    other = not_correct(task, Candidate(source="other"), rejected)
    assert other == f"{task.name}: the first candidate {told.format(5)}"
    failed = RuntimeFailed(reason="invalid argument", evidence="above workload {'n': 5000001}")
    words = not_correct(task, Candidate(source=task.source), failed)
    assert words.endswith("declare it so (docs/tasks.md): // size: n = 4194304, small 1000, fixed")
    assert "fixed" not in not_correct(task, Candidate(source="other"), failed)
    failed = RuntimeFailed(reason="invalid argument", evidence="small workload {'n': 1000}")
    assert "fixed" not in not_correct(task, Candidate(source=task.source), failed)
