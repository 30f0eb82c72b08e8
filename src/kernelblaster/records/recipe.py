"""Recipes: sets of optimization techniques that are applied together in one step of a search."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

JOINED = " + "


@dataclass(frozen=True)
class Recipe:
    """At least two techniques that are applied in one step: `techniques` are their names, sorted, each once;
    the policy chooses the order of application. Runs and knowledge bases store a recipe as its text,
    `kernel_fusion + vectorized_access`, in the place of a technique's name."""

    techniques: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.techniques) < 2 or list(self.techniques) != sorted(set(self.techniques)):
            raise ValueError(f"{self.techniques}: a recipe has two techniques or more, sorted, each once")

    @classmethod
    def of(cls, techniques: Iterable[str]) -> "Recipe | None":
        """Makes a recipe of technique names; duplicates count once. None if that leaves fewer than two."""
        names = tuple(sorted(set(techniques)))
        return cls(names) if len(names) > 1 else None

    @classmethod
    def parse(cls, name: str) -> "Recipe | None":
        """The recipe that is written as `name`, like `kernel_fusion + vectorized_access`: the inverse of
        `str`. None if `name` is that of a single technique."""
        return cls.of(name.split(JOINED)) if JOINED in name else None

    def __str__(self) -> str:
        return JOINED.join(self.techniques)

    def beyond(self, applied: Collection[str]) -> int:
        """Returns how many of this recipe's techniques are not among `applied`, those that a candidate has
        already."""
        return len(set(self.techniques).difference(applied))

    def done(self, applied: Collection[str], before: Collection[str]) -> str:
        """Returns the name to record for a step in which this recipe was tried. `applied` are those of its
        techniques that could be applied in the step; `before` are the techniques that the candidate had
        already. If `applied` is a single technique, the name is that technique's. Otherwise it is the text of
        a recipe with all techniques of this one that are in `applied` or in `before`. If these are fewer than
        two, it is the text of this recipe."""
        if len(set(applied)) == 1:
            return next(iter(applied))
        kept = set(self.techniques).intersection({*applied, *before})
        return str(Recipe.of(kept) or Recipe.of(applied) or self)

    def similarity(self, other: "Recipe") -> float:
        """Returns how similar this recipe and `other` are, from 0 (no technique in common) to 1 (equal): the
        number of techniques in both, divided by the number in at least one of them (Jaccard)."""
        mine, theirs = set(self.techniques), set(other.techniques)
        return len(mine & theirs) / len(mine | theirs)


def is_recipe(technique: str) -> bool:
    """Whether a name stands for several techniques applied in one step (`a + b`) rather than for a single
    one."""
    return JOINED in technique


def techniques_of(name: str) -> tuple[str, ...]:
    """The techniques of the recipe with this text, sorted; for the name of a single technique, that name
    alone."""
    recipe = Recipe.parse(name)
    return recipe.techniques if recipe else (name,)
