"""The ablation studies, each a list of arms (ways to search that are compared) with the claims of the MAIC-RL
paper about them. To add a study, or an arm to one, add an entry to STUDIES in this module."""

from dataclasses import dataclass, field
from typing import Any, Literal

from kernelblaster.errors import KernelBlasterError
from kernelblaster.search.names import StrategyName
from kernelblaster.sessions.settings import Search

Start = Literal["empty", "seed", "trained", "trained elsewhere"]
Measure = Literal["best", "evaluations", "tokens"]
Direction = Literal["more", "fewer", "little"]
LITTLE = 1.1  # a smaller factor between two arms counts as little


@dataclass(frozen=True)
class Arm:
    """One way to search, called `name`, that an ablation compares with others. `settings` are the fields of
    `Search` (the options of a search) that differ from the common setup. With `budget_each`, every rollout of
    a search may judge as many candidates as a whole search of another arm.

    `start` is the knowledge base that its searches begin with. "empty": one that knows nothing. "seed": the
    one that is shipped. "trained": one that learned from searches of half of the tasks. "trained elsewhere":
    the same, on another GPU. A strategy without memory ignores it.
    """

    name: str
    start: Start = "seed"
    settings: dict[str, Any] = field(default_factory=dict)
    strategy: StrategyName = "maic-rl"
    budget_each: bool = False

    def search(self, common: Search) -> Search:
        """Returns the search options of this arm (way to search): those that all arms of the ablation have in
        common (`common`), with the arm's own changes."""
        own = common.model_copy(update=self.settings)
        return (
            own.model_copy(update={"evaluations": own.evaluations * own.rollouts})
            if self.budget_each
            else own
        )


@dataclass(frozen=True)
class Claim:
    """A claim of the MAIC-RL paper that compares two arms (ways to search), and that a study tests: that
    `arm` has more or less of a quantity than the arm `beside`. `measure` is the quantity: "best" (the best
    speedup), "evaluations" (candidates judged until 95 % of the best speedup is reached) or "tokens".
    `direction` is the claim: "more", "fewer", or "little" difference. `size` is the factor in the paper, None
    if it gives none. If `words` is empty, the paper makes no claim, and only the ratio is reported."""

    arm: str
    beside: str
    measure: Measure
    direction: Direction
    words: str
    size: float | None = None


@dataclass(frozen=True)
class Study:
    """A question that an ablation answers. `name` is its short name for commands, `title` its heading in
    reports. `arms` are the ways to search that are compared, `claims` what the MAIC-RL paper says about them.
    `needs_model`: the arms are ways to use a language model."""

    name: str
    title: str
    arms: tuple[Arm, ...]
    claims: tuple[Claim, ...]
    needs_model: bool = False

    @property
    def trains(self) -> bool:
        """Whether some arm (way to search) begins with a knowledge base that was trained by searches of other
        tasks. Then half of the tasks are only for training, and arms are compared on the other half."""
        return any(arm.start in ("trained", "trained elsewhere") for arm in self.arms)


NO_MEMORY = "with profiles but without a knowledge base the result is 1.67x slower (section 6.1)"
STUDIES = (
    Study(
        "memory",
        "Does memory pay?",
        (
            Arm("empty", "empty"),
            Arm("trained", "trained"),
            Arm("no memory", "empty", strategy="no-memory"),
        ),
        (
            Claim(
                "trained",
                "empty",
                "evaluations",
                "fewer",
                "a trained knowledge base covers useful optimizations much faster (section 6.1)",
            ),
            Claim("trained", "no memory", "best", "more", NO_MEMORY, 1.67),
            Claim("empty", "no memory", "evaluations", "fewer", ""),
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
        tuple(
            Arm(f"{count} rollouts", settings={"rollouts": count}, budget_each=True) for count in (1, 2, 4, 8)
        ),
        (
            Claim(
                "8 rollouts",
                "1 rollouts",
                "best",
                "more",
                "more trajectories, each with a budget of its own, find more, with diminishing returns "
                "beyond 8 (section 6.2)",
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
    Study(
        "agents",
        "What do the knowledge base and the profiles add to a model?",
        (
            Arm("full"),
            Arm("no memory", strategy="no-memory"),
            Arm("cycles only", strategy="cycles-only"),
            Arm("minimal", strategy="minimal"),
        ),
        (
            Claim("full", "no memory", "best", "more", NO_MEMORY, 1.67),
            Claim(
                "full",
                "cycles only",
                "best",
                "more",
                "told nothing but cycles, an agent reaches 1.22x over PyTorch on level 2, and 1.57x with "
                "profiles (section 6.3)",
                1.57 / 1.22,
            ),
            Claim(
                "full",
                "minimal",
                "best",
                "more",
                "it finds something faster than a minimal agent in 71% of the cases (section 6.4)",
            ),
            Claim(
                "full",
                "minimal",
                "tokens",
                "fewer",
                "a minimal agent takes 2.4x the tokens (section 6.4; there for as many trajectories and "
                "steps, here for as many candidates)",
                2.4,
            ),
        ),
        needs_model=True,
    ),
)


def studies_named(names: list[str]) -> list[Study]:
    """The studies of these names; without names, all that need no language model. Raises KernelBlasterError
    for an unknown name."""
    known = {study.name: study for study in STUDIES}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise KernelBlasterError(f"{unknown[0]}: no such study; there are {', '.join(known)}.")
    return [known[name] for name in names or (study.name for study in STUDIES if not study.needs_model)]
