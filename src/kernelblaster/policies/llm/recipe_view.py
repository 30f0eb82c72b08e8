"""Writes the part of a prompt on recipes: sets of techniques that, applied together, gave fast kernels in
earlier searches."""

from kernelblaster.knowledge.content import Content, OptimizationEntry
from kernelblaster.knowledge.recipes import recipes_for
from kernelblaster.policies.llm.data import one_line
from kernelblaster.policies.llm.knowledge_view import amount
from kernelblaster.policies.llm.prompt import Piece
from kernelblaster.policies.llm.scene import Scene
from kernelblaster.records.target import Target

IMPORTANCE = 46  # of the first; less for each further one


def recipe_pieces(scene: Scene, target: Target, applied: tuple[str, ...]) -> list[Piece]:
    """Returns texts for a prompt on the recipes (sets of techniques) that the knowledge base has for the
    kernel `target`, the best first. Each says which speed the recipe reached, as a fraction of the roofline
    floor's (1 is the fastest that the GPU allows), and how often it was tried. `applied` are the techniques
    that led to the candidate, `scene` is the context of the prompt."""
    content = scene.session.memory.now()
    name = scene.around(target.state).name or target.state.name
    recipes = recipes_for(content, name, scene.architecture, applied, target.family)
    return [
        Piece(f"- {_text(str(recipe), content)}", IMPORTANCE - rank) for rank, recipe in enumerate(recipes)
    ]


def _text(recipe: str, content: Content) -> str:
    """A line on a recipe (a set of techniques, by its name) from the knowledge base: its best mean result in
    any state, if it was tried, and its latest note, if it has one."""
    entries = [e for e in content.living_entries if e.technique == recipe]
    tried = [e for e in entries if e.evidence.total.seen >= 1]
    text = one_line(recipe, 200)
    if tried:
        best = max(tried, key=_mean)
        attempts = best.evidence.total.attempts
        text += (
            f": ended at {amount(recipe, _mean(best))} from {one_line(best.state, 80)} "
            f"({attempts:.0f} tried, {best.evidence.clocks})"
        )
    notes = [note for entry in entries for note in entry.notes]
    return f"{text}. Note: {one_line(notes[-1], 200)}" if notes else text


def _mean(entry: OptimizationEntry) -> float:
    """The mean natural logarithm of the speed that the recipe of this entry reached, relative to the roofline
    floor's: of measured attempts, or of modelled ones if none was measured."""
    return entry.evidence.of_one_clock.total.mean
