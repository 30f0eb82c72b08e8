"""Applies a model's changes to a source, given as the whole new file or as search-and-replace blocks."""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

SHOWN = 120  # letters of a block that could not be applied


class SourceEdit(BaseModel):
    """One replacement in a source: the text `replace` takes the place of the text `search`, which must occur
    exactly once, to the letter."""

    model_config = ConfigDict(extra="forbid")

    search: str = Field(description="Lines of the source exactly as they are, enough to occur only once.")
    replace: str = Field(description="What stands in their place.")


class Refusal(Exception):
    """Raised if a model's changes cannot be applied to the source. The message, which is shown to the model,
    says which change and why."""


def apply_edits(source: str, edits: Sequence[SourceEdit]) -> str:
    """Returns the source after all replacements in `edits`, made one after the other, each on the result of
    the ones before it. Raises `Refusal` if the text that one of them searches for does not occur exactly
    once."""
    for number, edit in enumerate(edits, 1):
        count = source.count(edit.search) if edit.search else 0
        if count != 1:
            raise Refusal(_why(number, edit.search, count, source))
        source = source.replace(edit.search, edit.replace)
    return source


def changed(source: str, whole: str, edits: Sequence[SourceEdit], *, all_shown: bool) -> str:
    """Returns the new version of `source` that a model's answer gives, either as `whole` (the complete new
    file, or blank) or as `edits` (replacements, or empty). `all_shown`: the model's prompt contained the
    entire old source. Raises `Refusal` if neither or both of `whole` and `edits` are given, if `whole` is
    given though parts of the old source were not shown, or if nothing changes."""
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
