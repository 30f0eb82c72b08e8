"""Every outcome is known to people, scripts, models and the knowledge base: nothing forgets a new one."""

from typing import get_args

from kernelblaster.cli.show import EXIT_CODES
from kernelblaster.knowledge import Failure
from kernelblaster.policies.expert.gaps import FAILURES
from kernelblaster.policies.llm.feedback import outcome_feedback
from kernelblaster.records import Outcome

KINDS = {kind.__name__: kind for kind in get_args(get_args(Outcome)[0])}
FAILED = {name for name, kind in KINDS.items() if "speedup" not in kind.model_fields}
NO_VERDICT = {"Unsupported"}  # says nothing about a candidate: it teaches nothing


def test_every_outcome_has_an_exit_code() -> None:
    assert set(EXIT_CODES) == set(KINDS.values())


def test_every_failure_can_be_learned_and_explained() -> None:
    assert set(get_args(Failure)) - {"Inapplicable"} == FAILED - NO_VERDICT == set(FAILURES)


def test_every_failure_has_words_for_a_model() -> None:
    for name in FAILED:
        fields = dict.fromkeys(KINDS[name].model_fields, "because") | {"kind": name, "limit_s": 1.0}
        assert outcome_feedback(KINDS[name].model_construct(**fields), "")
