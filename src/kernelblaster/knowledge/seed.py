"""The initial content of a new knowledge base, from `seed.toml`: techniques with expected speedups, which
results of attempts soon overrule."""

import json
import tomllib
from functools import cache
from pathlib import Path

from kernelblaster.knowledge.document import import_changes
from kernelblaster.knowledge.knowledge_base import KnowledgeBase

SOURCE = Path(__file__).parent / "seed.toml"


@cache
def shipped_techniques() -> set[str]:
    """The names of all techniques in the seed."""
    return {*tomllib.loads(SOURCE.read_text())["techniques"]}


def seed_document() -> str:
    """The shipped knowledge (states, techniques, expected speedups) as a JSON document that `import_changes`
    takes."""
    data = tomllib.loads(SOURCE.read_text())
    states = {}
    for name, state in data["states"].items():
        gains = state.pop("gains")
        items = [
            {"technique": technique, "predicted_speedup": gain, **data["techniques"][technique]}
            for technique, gain in gains.items()
        ]
        states[name] = {**state, "optimizations": items}
    return json.dumps({"states": states})


def plant(knowledge_base: KnowledgeBase) -> int:
    """Import the seed into a knowledge base; returns how many events were recorded, 0 if they all were there
    before."""
    return knowledge_base.take_over(import_changes(seed_document(), SOURCE.name))
