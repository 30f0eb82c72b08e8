"""What prompts take, by role, for a small, a middle and the largest task of the core suite that the expert
covers; and that a step which knowledge guides takes a part of one that gets everything."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kernelblaster.devices.ncu import parse
from kernelblaster.models.tokens import tokens_of
from kernelblaster.policies.llm.roles import ROLES, TOKENS
from tests.policies.llm.played import FUSED, VECTOR, rewrite
from tests.policies.llm.questions import questions
from tests.policies.llm.scenes import case, relu

NCU = Path(__file__).parents[2] / "devices" / "data" / "ncu_details.csv"
# Tokens of the question, without the part that is the same for all questions of a task.
SIZES = {
    "initial-writer": (434, 470, 1105),
    "state-extractor": (999, 2300, 2353),
    "state-matcher": (588, 588, 588),
    "proposer": (1954, 3485, 7877),
    "lowerer": (1032, 2555, 7830),
    "soft-verifier": (894, 2242, 14_846),
    "policy-evaluator": (211, 211, 211),
    "gap-analyst": (1054, 1651, 1610),
    "knowledge-updater": (595, 602, 602),
}
# Of the tokens of a minimal step. What all guided steps have in common weighs more where code is short.
MOST = {"relu": 0.52, "small": 0.57, "middle": 0.45, "largest": 0.15}


@pytest.mark.parametrize("place", range(3), ids=["small", "middle", "largest"])
def test_sizes_by_role(place: int) -> None:
    """A tenth more than what was noted here is worth a look."""
    asked = questions(case(("small", "middle", "largest")[place]))
    for role in ROLES:
        size = tokens_of(asked[role].messages[-1].text)
        assert size <= TOKENS[role].room.most
        assert size <= 1.1 * SIZES[role][place], (role, size)


def size(request_texts: list[str], answer: object) -> int:
    return sum(tokens_of(text) for text in request_texts) + tokens_of(json.dumps(answer))


@pytest.mark.parametrize("name", MOST)
def test_a_guided_step_takes_a_part_of_a_minimal_one(name: str) -> None:
    """Question and answer together. Both answers make the same change, in a whole file or in blocks. The
    small task has a real report of NCU; the others' profiles are modelled, which are shorter."""
    one = relu()[0] if name == "relu" else case(name)
    if name == "small":
        real = parse(NCU.read_text())[0].model_copy(update={"name": one.target.kernel})
        profile = one.profile.model_copy(update={"kernels": (real,), "tier": "ncu"})
        one = replace(one, profile=profile)
    asked = questions(one)
    guided = [message.text for message in asked["lowerer"].messages]
    minimal = [message.text for message in asked["minimal"].messages]
    source = FUSED if name == "relu" else one.candidate.source
    whole = {"summary": "as asked", "source": source + "".join(edit["replace"] for edit in VECTOR)}
    sizes = size(guided, rewrite(edits=VECTOR)), size(minimal, whole)
    print(f"{name}: guided {sizes[0]}, minimal {sizes[1]}, {sizes[0] / sizes[1]:.2f}")
    assert sizes[0] <= MOST[name] * sizes[1]
