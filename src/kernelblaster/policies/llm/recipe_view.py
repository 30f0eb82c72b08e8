"""Parts of prompts about recipes: techniques that led far together, in earlier searches."""

from math import exp

from kernelblaster.knowledge.content import Content, OptimizationEntry
from kernelblaster.knowledge.recipes import recipes_for
from kernelblaster.policies.llm.data import one_line
from kernelblaster.policies.llm.prompt import Piece
from kernelblaster.policies.llm.scene import Scene
from kernelblaster.records.target import Target

IMPORTANCE = 46  # of the first; less for each further one


def recipe_pieces(scene: Scene, target: Target, applied: tuple[str, ...]) -> list[Piece]:
    """Prompt lines on the recipes that are offered for a kernel, the best first: where each ended, as a share
    of the floor's speed, and how often it was tried. `applied` are techniques that the candidate has."""
    content = scene.session.memory.now()
    name = scene.around(target.state).name or target.state.name
    recipes = recipes_for(content, name, scene.architecture, applied, target.family)
    return [
        Piece(f"- {_text(str(recipe), content)}", IMPORTANCE - rank) for rank, recipe in enumerate(recipes)
    ]


def _text(recipe: str, content: Content) -> str:
    """A recipe with its best result in any state, and its latest note."""
    entries = [e for e in content.living_entries if e.technique == recipe]
    tried = [e for e in entries if e.evidence.total.seen >= 1]
    text = one_line(recipe, 200)
    if tried:
        best = max(tried, key=_mean)
        attempts = best.evidence.total.attempts
        text += (
            f": ended at {exp(_mean(best)):.2f} of the floor's speed from {one_line(best.state, 80)} "
            f"({attempts:.0f} tried, {best.evidence.clocks})"
        )
    notes = [note for entry in entries for note in entry.notes]
    return f"{text}. Note: {one_line(notes[-1], 200)}" if notes else text


def _mean(entry: OptimizationEntry) -> float:
    """The mean log speed relative to the floor's: of measured attempts, or of modelled ones if there are no
    others."""
    return entry.evidence.of_one_clock.total.mean
