"""Applies a model's changes to a source, given as the whole new file or as search-and-replace blocks."""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

SHOWN = 120  # letters of a block that could not be applied


class SourceEdit(BaseModel):
    """One replacement. `search` must occur exactly once, to the letter."""

    model_config = ConfigDict(extra="forbid")

    search: str = Field(description="Lines of the source exactly as they are, enough to occur only once.")
    replace: str = Field(description="What stands in their place.")


class Refusal(Exception):
    """A model's changes cannot be applied to the source; the message, which the model is shown, says which
    and why."""


def apply_edits(source: str, edits: Sequence[SourceEdit]) -> str:
    """The source after all replacements in `edits`, each searched for in the result of those before. Raises
    `Refusal` if the text to replace does not occur exactly once."""
    for number, edit in enumerate(edits, 1):
        count = source.count(edit.search) if edit.search else 0
        if count != 1:
            raise Refusal(_why(number, edit.search, count, source))
        source = source.replace(edit.search, edit.replace)
    return source


def changed(source: str, whole: str, edits: Sequence[SourceEdit], *, all_shown: bool) -> str:
    """The new version of `source` from a model's answer: `whole` (a complete file; blank if not given) or
    `edits`. `all_shown`: the prompt showed the entire old source. Raises `Refusal` if neither or both are
    given, if a whole file would drop parts that were not shown, or if nothing changes."""
    if bool(whole.strip()) == bool(edits):
        raise Refusal("give either `edits` or the whole file as `source`, and not both")
    if whole.strip() and not all_shown:
        raise Refusal("parts of the file were not shown, so a whole file would lose them: give `edits`")
    new = whole if whole.strip() else apply_edits(source, edits)
    if new.strip() == source.strip():
        raise Refusal("the source is the same as before")
    return new if new.endswith("\n") else f"{new}\n"


def _why(number: int, search: str, count: int, source: str) -> str:
    """The sentence for the model on why edit `number` (from 1) was refused: its `search` is empty, occurs
    `count` times instead of once, or occurs in `source` only with other spaces."""
    if not search:
        return f"edit {number}: `search` is empty"
    start = search.strip()[:SHOWN]
    if count:
        return f"edit {number}: the block occurs {count} times, add lines around it: {start!r}"
    plain = " ".join(search.split())
    if plain in " ".join(source.split()):
        return f"edit {number}: the block occurs only with other spaces or line breaks: {start!r}"
    return f"edit {number}: the block does not occur in the source: {start!r}"
