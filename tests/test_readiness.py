from pathlib import Path

from kernelblaster.readiness import readiness_of
from kernelblaster.records import Fitness
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
