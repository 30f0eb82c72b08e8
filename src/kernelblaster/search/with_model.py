"""`strategy_named`: makes the strategies in which a language model takes part, by name."""

from collections.abc import Callable
from dataclasses import dataclass

from kernelblaster.models.request import Model
from kernelblaster.policies.expert.policy import ExpertPolicy
from kernelblaster.policies.llm.policy import MixedPolicy
from kernelblaster.policies.llm.roles import LEARNING, Cast
from kernelblaster.policies.llm.scene import PromptDetail
from kernelblaster.search.loop import MaicRl
from kernelblaster.search.names import REMEMBERS, StrategyName
from kernelblaster.search.plain_rewrites import PlainRewrites
from kernelblaster.search.reviewed import Reviewed
from kernelblaster.search.strategy import Strategy, StrategyMaker
from kernelblaster.search.zero_shot import ZeroShot
from kernelblaster.sessions.session import Session

Make = Callable[[MixedPolicy, Session], Strategy]
_MAKERS: dict[StrategyName, Make] = {
    "maic-rl": MaicRl,
    "no-memory": MaicRl,
    "cycles-only": MaicRl,
    "zero-shot": ZeroShot,
    "minimal": PlainRewrites,
}
_DETAILS: dict[StrategyName, PromptDetail] = {"maic-rl": "digest", "cycles-only": "cycles"}


@dataclass(frozen=True)
class Players:
    """Who takes part in a search: the built-in expert and a language model. `cast` says which of the two
    plays which role."""

    expert: ExpertPolicy
    model: Model
    cast: Cast


def strategy_named(name: StrategyName, players: Players) -> StrategyMaker:
    """Returns a function that makes the strategy `name` for a session. The roles of the search are played by
    `players`. The candidate that the strategy finds is reviewed before it is returned (`Reviewed`). In
    strategies without memory, the built-in expert policy plays the roles that learn, and prompts show whole
    profiles. In the strategy `cycles-only`, the model and the rules that name states see only the durations
    in profiles."""

    cast = players.cast if name in REMEMBERS else players.cast.without(LEARNING)
    detail = _DETAILS.get(name, "whole")

    def make(session: Session) -> Strategy:
        policy = MixedPolicy(players.expert, cast, players.model, session, detail=detail)
        return Reviewed(_MAKERS[name](policy, session), policy, session)

    return make
