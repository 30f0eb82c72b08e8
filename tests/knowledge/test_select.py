"""A selection rule is known wherever it is chosen, followed and told."""

import re
from pathlib import Path
from random import Random
from typing import get_args, get_type_hints

import pytest

from kernelblaster.bench.studies import STUDIES
from kernelblaster.cli.options import SearchOptions
from kernelblaster.knowledge.select import RULES
from kernelblaster.records.selection import Selection
from kernelblaster.report.run.reasons import DRAWN
from kernelblaster.sessions.settings import Search
from tests.knowledge.test_learning import learner

DOCS = Path(__file__).parents[2] / "docs"
NAMES = set(get_args(Selection))


def test_every_selection_has_its_rule_its_option_and_its_words() -> None:
    assert set(RULES) == NAMES
    assert Search.model_fields["selection"].annotation == Selection
    assert get_type_hints(SearchOptions)["selection"] == Selection
    assert set(DRAWN) == NAMES


def test_every_selection_is_in_the_table_of_rules_and_in_the_study() -> None:
    table = (DOCS / "knowledge.md").read_text().split("## Selection rules")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == NAMES
    study = next(one for one in STUDIES if one.name == "selection")
    assert {arm.settings["selection"] for arm in study.arms} == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_rule_draws_each_option_once(name: Selection) -> None:
    options = learner({name: 1.0 + 0.1 * place for place, name in enumerate("abcd")}).optimizations("s")
    drawn = RULES[name](options, 9, Random(0), 2.0)
    assert sorted(o.optimization.technique for o in drawn) == list("abcd")
    assert RULES[name](options, 2, Random(0), 2.0) == drawn[:2]
    assert RULES[name]([], 3, Random(0), 2.0) == []
