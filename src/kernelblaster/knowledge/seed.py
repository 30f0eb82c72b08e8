"""The initial content of a new knowledge base, from `seed.toml`: performance states, and techniques with the
speedups expected of them. Results of attempts soon outweigh these expectations."""

import json
import tomllib
from functools import cache
from pathlib import Path

from kernelblaster.knowledge.document import import_changes
from kernelblaster.knowledge.knowledge_base import KnowledgeBase

SOURCE = Path(__file__).parent / "seed.toml"


@cache
def shipped_techniques() -> set[str]:
    """Returns the names of all techniques in the shipped knowledge (seed.toml)."""
    return {*tomllib.loads(SOURCE.read_text())["techniques"]}


def seed_document() -> str:
    """Returns the shipped knowledge (performance states, techniques, expected speedups) as a JSON document,
    which `import_changes` can read."""
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
    """Adds the shipped knowledge (performance states and techniques) to a knowledge base. Returns how many
    events were recorded for that; 0 if everything was there already."""
    return knowledge_base.take_over(import_changes(seed_document(), SOURCE.name))
