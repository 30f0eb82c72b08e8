"""Task files rebuilt from facts run the operators that the facts name."""

import json
from pathlib import Path

import pytest
from rebuild import rebuilt
from rebuilt.facts import Problem, read_problems
from rebuilt.traced import differences

PLAIN = [[1, 1], [0, 0], [1, 1], False, [0, 0], 1]
BLOCK = [[8, 16, 20, 20], [16, 16, 3, 3], None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1]
FACTS = {
    "level1/product": ([[64, 128], [96, 128]], [("mm.default", [[64, 128], [128, 96]], [64, 96], 1)]),
    "level1/gate": (
        [[64, 128]],
        [
            ("sigmoid.default", [[64, 128]], [64, 128], 1),
            ("mul.Tensor", [[64, 128], [64, 128]], [64, 128], 1),
        ],
    ),
    "level2/convolution": (
        [[4, 3, 32, 40]],
        [
            ("convolution.default", [[4, 3, 32, 40], [8, 3, 3, 3], [8], *PLAIN], [4, 8, 30, 38], 1),
            ("min.dim", [[4, 8, 30, 38], 1, True], [[4, 1, 30, 38], [4, 1, 30, 38]], 1),
            ("add.Tensor", [[4, 1, 30, 38], [1, 1, 1]], [4, 1, 30, 38], 1),
        ],
    ),
    "level3/chain": (
        [[8, 16, 20, 20]],
        [
            ("convolution.default", BLOCK, [8, 16, 20, 20], 3),
            ("relu.default", [[8, 16, 20, 20]], [8, 16, 20, 20], 3),
            (
                "max_pool2d_with_indices.default",
                [[8, 16, 20, 20], [2, 2], [2, 2]],
                [[8, 16, 10, 10], [8, 16, 10, 10]],
                1,
            ),
            ("addmm.default", [[10], [8, 1600], [1600, 10]], [8, 10], 1),
        ],
    ),
}


@pytest.fixture
def problems(tmp_path: Path) -> dict[str, Problem]:
    lines = [
        {
            "problem": name,
            "inputs": inputs,
            "ops": [{"op": o, "args": a, "out": r, "times": n} for o, a, r, n in operators],
            "mb": 1.0,
        }
        for name, (inputs, operators) in FACTS.items()
    ]
    path = tmp_path / "facts.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return {problem.name: problem for problem in read_problems(path)}


@pytest.mark.parametrize("literals", [False, True])
@pytest.mark.parametrize("name", FACTS)
def test_the_rebuilt_module_runs_what_the_facts_say(
    name: str, literals: bool, problems: dict[str, Problem]
) -> None:
    text = rebuilt(problems[name], literals=literals)
    assert differences(problems[name], text) == []


def test_a_difference_is_named(problems: dict[str, Problem]) -> None:
    other = rebuilt(problems["level1/gate"]).replace("sigmoid", "tanh")
    assert any(
        "missing 1 x ('sigmoid.default'" in words for words in differences(problems["level1/gate"], other)
    )
