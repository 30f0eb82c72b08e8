"""What prompts take, by role, for a small, a middle and the largest task of the core suite that the expert
covers; and that a step which knowledge guides takes at most half of one that gets everything."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from kernelblaster.devices.ncu import parse
from kernelblaster.policies.llm.roles import ROLES, TOKENS
from kernelblaster.policies.llm.tokens import tokens_of
from tests.policies.llm.played import FUSED, VECTOR, rewrite
from tests.policies.llm.questions import questions
from tests.policies.llm.scenes import case, relu

NCU = Path(__file__).parents[2] / "devices" / "data" / "ncu_details.csv"
# Tokens of the question, without the part that is the same for all questions of a task.
SIZES = {
    "initial-writer": (440, 476, 1111),
    "state-extractor": (957, 2439, 1933),
    "state-matcher": (302, 302, 302),
    "proposer": (1787, 3318, 6608),
    "lowerer": (983, 2506, 6550),
    "soft-verifier": (894, 2235, 14_831),
    "policy-evaluator": (160, 160, 160),
    "gap-analyst": (703, 716, 716),
    "knowledge-updater": (379, 386, 386),
}


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


@pytest.mark.parametrize("name", ["relu", "small", "middle", "largest"])
def test_a_guided_step_takes_at_most_half(name: str) -> None:
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
    assert sizes[0] <= sizes[1] / 2
