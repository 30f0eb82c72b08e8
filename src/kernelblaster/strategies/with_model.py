"""The strategies in which a language model takes part, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from kernelblaster.models.request import Model
from kernelblaster.policies.expert.policy import ExpertPolicy
from kernelblaster.policies.llm.policy import MixedPolicy
from kernelblaster.policies.llm.roles import LEARNING, Cast
from kernelblaster.strategies.maic_rl import MaicRl
from kernelblaster.strategies.names import REMEMBERS, StrategyName
from kernelblaster.strategies.plain_rewrites import PlainRewrites
from kernelblaster.strategies.reviewed import Reviewed
from kernelblaster.strategies.search import Search
from kernelblaster.strategies.strategy import Arrange, Strategy, Workplace
from kernelblaster.strategies.zero_shot import ZeroShot

Make = Callable[[MixedPolicy, Workplace, Search], Strategy]
_MAKERS: dict[StrategyName, Make] = {
    "maic-rl": MaicRl,
    "no-memory": MaicRl,
    "zero-shot": ZeroShot,
    "minimal": partial(PlainRewrites, profiled=True),
    "cycles-only": partial(PlainRewrites, profiled=False),
}


@dataclass(frozen=True)
class Players:
    """Who takes part: the expert (on the instructions of an architecture), a model, and who plays what."""

    expert: ExpertPolicy
    model: Model
    cast: Cast


def arrangement(name: StrategyName, players: Players) -> Arrange:
    """A strategy by its name, its result softly verified. Without a memory nothing is asked about what was
    learned, and profiles are told whole."""

    memory = name in REMEMBERS
    cast = players.cast if memory else players.cast.without(LEARNING)

    def arrange(session: Workplace, search: Search) -> Strategy:
        policy = MixedPolicy(players.expert, cast, players.model, session, whole_profiles=not memory)
        return Reviewed(_MAKERS[name](policy, session, search), policy, session)

    return arrange
