"""The names of the strategies. The code of a strategy is imported only when it is used."""

from typing import Literal

StrategyName = Literal["maic-rl", "zero-shot", "minimal", "no-memory", "cycles-only"]
REMEMBERS: tuple[StrategyName, ...] = ("maic-rl", "cycles-only")
"""The others work with a knowledge base that knows and learns nothing (`FrozenKnowledge`)."""
BY_ROLES: tuple[StrategyName, ...] = ("maic-rl", "no-memory", "cycles-only")
"""Those in which each role may have another player."""
