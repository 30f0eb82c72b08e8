"""Learning studies: which arms are compared, on what, and what the paper says about it.

A new study, or a new arm of one, is a new entry here.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from kernelblaster.errors import KernelBlasterError

Start = Literal["empty", "seed", "trained", "trained elsewhere"]
Measure = Literal["best", "evaluations"]
Direction = Literal["more", "fewer", "little"]
LITTLE = 1.1  # by less than this factor, one arm is little better than another


@dataclass(frozen=True)
class Arm:
    """One way to search. `settings` differ from those of the study's other arms; what it knows at first
    is nothing, the seed, what the first half of the tasks taught, or what they taught for another GPU."""

    name: str
    start: Start = "seed"
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """What the paper leads one to expect of an arm beside another: `more` speed, `fewer` evaluations, or
    `little` more of what is measured. No `words`: the paper says nothing about it."""

    arm: str
    beside: str
    measure: Measure
    direction: Direction
    words: str


@dataclass(frozen=True)
class Study:
    """`claims` are what is answered, each with a sentence."""

    name: str
    title: str
    arms: tuple[Arm, ...]
    claims: tuple[Claim, ...]

    @property
    def trains(self) -> bool:
        """Whether a half of the tasks is needed for training."""
        return any(arm.start in ("trained", "trained elsewhere") for arm in self.arms)


STUDIES = (
    Study(
        "memory",
        "Does memory pay?",
        (Arm("empty", "empty"), Arm("trained", "trained")),
        (
            Claim(
                "trained",
                "empty",
                "evaluations",
                "fewer",
                "a trained knowledge base covers useful optimizations much faster (section 6.1)",
            ),
            Claim(
                "trained",
                "empty",
                "best",
                "more",
                "without memory the result is 1.67x slower (section 6.1)",
            ),
        ),
    ),
    Study(
        "transfer",
        "Does one GPU's knowledge help on another?",
        (Arm("empty", "empty"), Arm("trained elsewhere", "trained elsewhere")),
        (
            Claim(
                "trained elsewhere",
                "empty",
                "evaluations",
                "fewer",
                "a knowledge base trained on one GPU can be reused on others (section 6.1)",
            ),
        ),
    ),
    Study(
        "breadth",
        "How many trajectories?",
        tuple(Arm(f"{count} rollouts", settings={"rollouts": count}) for count in (1, 2, 4, 8)),
        (
            Claim(
                "8 rollouts",
                "1 rollouts",
                "best",
                "more",
                "more trajectories find more, with diminishing returns beyond 8 (section 6.2; there each "
                "has a budget of its own, here all share one)",
            ),
            Claim(
                "8 rollouts",
                "4 rollouts",
                "best",
                "little",
                "returns diminish (section 6.2)",
            ),
        ),
    ),
    Study(
        "depth",
        "How long a trajectory?",
        tuple(Arm(f"{count} steps", settings={"steps": count}) for count in (1, 2, 4, 8)),
        (
            Claim("4 steps", "1 steps", "best", "more", "up to 4 optimizations in a row pay (section 6.2)"),
            Claim("8 steps", "4 steps", "best", "little", "beyond 4 returns diminish (section 6.2)"),
        ),
    ),
    Study(
        "selection",
        "How are techniques drawn?",
        (
            Arm("weighted", settings={"selection": "weighted", "sharpness": 1.0}),
            Arm("weighted, squared", settings={"selection": "weighted", "sharpness": 2.0}),
            Arm("thompson", settings={"selection": "thompson"}),
        ),
        (
            Claim("weighted, squared", "weighted", "evaluations", "fewer", ""),
            Claim("thompson", "weighted", "evaluations", "fewer", ""),
        ),
    ),
)


def studies_named(names: list[str]) -> list[Study]:
    """All of them where none is named."""
    known = {study.name: study for study in STUDIES}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise KernelBlasterError(f"{unknown[0]}: no such study; there are {', '.join(known)}.")
    return [known[name] for name in names or known]
