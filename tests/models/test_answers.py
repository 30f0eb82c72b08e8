"""An answer that was paid for is on disk before it is used, and never paid for twice."""

import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernelblaster.models.answers import Answers, Replay
from kernelblaster.models.factory import Service, open_models
from kernelblaster.models.failures import NotRecorded, Refused
from kernelblaster.models.ledger import Ledger, ModelBudget
from kernelblaster.models.names import parse_table
from kernelblaster.models.prices import Prices
from kernelblaster.models.request import ModelAnswer
from kernelblaster.models.validating_model import ValidatingModel
from tests.models.asked import PROTOCOLS, QUESTION, ROLES, asking, question
from tests.models.server import USAGE, Says, Script, serving

ROOT = Path(__file__).parents[2]
GOOD = Says('{"product": 42}')


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_same_question_is_asked_once(protocol: str, tmp_path: Path) -> None:
    script = Script(GOOD)
    with asking(protocol, script, tmp_path) as (model, ledger):
        assert model.ask(QUESTION) == model.ask(QUESTION)
        model.ask(question("another"))
    assert len(script.calls) == 2 and ledger.total().calls == 2


def test_the_same_question_from_many_threads_is_asked_once(tmp_path: Path) -> None:
    script = Script(GOOD)
    with asking("openai", script, tmp_path) as (model, ledger), ThreadPoolExecutor(6) as pool:
        assert {reply.value.product for reply in pool.map(model.ask, [QUESTION] * 6)} == {42}
    assert len(script.calls) == 1 and ledger.total().calls == 1


def test_another_seed_is_another_question_and_a_label_is_not() -> None:
    assert question("x", seed=1).digest != question("x").digest
    assert question("x", step="9", task="other", role="matcher").digest == question("x").digest


def test_bad_answers_are_kept_too(tmp_path: Path) -> None:
    script = Script(Says("no", refusal=True))
    with asking("openai", script, tmp_path) as (model, _):
        for _ in range(2):
            with pytest.raises(Refused):
                model.ask(QUESTION)
    assert len(script.calls) == 1


def test_a_recorded_run_is_replayed_at_no_cost(tmp_path: Path) -> None:
    script = Script(Says("not JSON"), GOOD, GOOD)
    record = tmp_path / "recording"
    with asking("openai", script, tmp_path, record=record) as (model, _):
        first = [model.ask(QUESTION), model.ask(question("another"))]
    replay = ValidatingModel(Replay(Answers(record)))
    assert [replay.ask(QUESTION), replay.ask(question("another"))] == first
    assert len(script.calls) == 3 and len(list(record.iterdir())) == 3
    with pytest.raises(NotRecorded, match="lowerer"):
        replay.ask(question("a third"))


def test_a_question_in_other_words_is_found_by_its_step_if_that_asked_once(tmp_path: Path) -> None:
    record = tmp_path / "recording"
    with asking("openai", Script(GOOD, GOOD, GOOD), tmp_path, record=record) as (model, _):
        for words, step in (("one", "1"), ("two", "2"), ("two, corrected", "2")):
            model.ask(question(words, step=step))
    replay = ValidatingModel(Replay(Answers(record)))
    assert replay.ask(question("one, as it is said now", step="1")).value.product == 42
    for step in ("2", "3", ""):
        with pytest.raises(NotRecorded):
            replay.ask(question("one, as it is said now", step=step))


def test_a_damaged_file_is_as_none(tmp_path: Path) -> None:
    answers = Answers(tmp_path)
    answers.keep(QUESTION, ModelAnswer(text="{}", stop="done", model="m", usage=None))
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-20])
    assert answers.find(QUESTION) is None
    answers.keep(QUESTION, ModelAnswer(text="{}", stop="done", model="m", usage=None))
    assert answers.has(QUESTION)


DIES = textwrap.dedent("""
    import os, signal, sys
    from pathlib import Path
    from kernelblaster.models.names import parse_table
    from kernelblaster.models.ledger import ModelBudget, Ledger
    from kernelblaster.models.factory import Service, open_models
    from kernelblaster.models.prices import Prices
    from tests.models.asked import QUESTION, ROLES

    class Dying(Ledger):
        def settle(self, *_, **__):
            os.kill(os.getpid(), signal.SIGKILL)

    folder = Path(sys.argv[2])
    ledger = Dying(Prices({}, {}), ModelBudget(), folder / "usage.jsonl")
    service = Service(answers=folder / "answers")
    open_models(parse_table([sys.argv[1]], ROLES), ledger, service).ask(QUESTION)
""")


def test_a_killed_process_loses_neither_the_answer_nor_its_cost(tmp_path: Path) -> None:
    script = Script(GOOD)
    with serving(script) as address:
        name = f"openai:m@{address}/v1"
        command = [sys.executable, "-c", DIES, name, str(tmp_path)]
        environment = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
        died = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert died.returncode == -signal.SIGKILL, died.stderr

        unsettled = Ledger(Prices({}, {}), ModelBudget(), tmp_path / "usage.jsonl")
        assert unsettled.total().usage == QUESTION.bound and unsettled.total().untold == 1
        unsettled.close()

        ledger = Ledger(Prices({}, {}), ModelBudget(tokens=1), tmp_path / "usage.jsonl")
        model = open_models(parse_table([name], ROLES), ledger, Service(answers=tmp_path / "answers"))
        assert model.ask(QUESTION).value.product == 42
    assert len(script.calls) == 1
    assert ledger.total().usage.tokens == sum(USAGE) and ledger.total().untold == 0
