"""Recipes (techniques that are applied together in one step) that usually pay for a family of kernels (a kind
of computation, such as reductions of rows). Searches whose knowledge base has no recipes of its own try
these."""

import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path


@cache
def _by_family() -> dict[str, list[str]]:
    """The recipes of recipes.toml by family, best first."""
    return tomllib.loads((Path(__file__).parent / "recipes.toml").read_text())


def usual_recipes(families: Sequence[str]) -> list[str]:
    """Returns the recipes for kernels of these `families` (kinds of computation), each once: first the best
    recipe of each family, then the second-best ones, and so on."""
    known = [_by_family().get(family, []) for family in families]
    most = max((len(recipes) for recipes in known), default=0)
    ordered = [recipes[place] for place in range(most) for recipes in known if place < len(recipes)]
    return list(dict.fromkeys(ordered))
