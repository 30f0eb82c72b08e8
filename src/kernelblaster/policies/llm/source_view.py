"""Shows a candidate's source in a prompt: in full, or without functions that the question is not about."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from kernelblaster.policies.llm.data import INVISIBLE, marks
from kernelblaster.policies.llm.prompt import NEEDED, Piece
from kernelblaster.policies.llm.source import ENTRY, SourcePart, parts_of, used_by

CALLED, OTHER = 70, 20  # importance of what a kernel calls, and of other functions


@dataclass(frozen=True)
class SourceView:
    """A source as the pieces of a prompt, in their order. The first and the last piece are marks, which tell
    the model that the text between them is data. A long prompt may leave out single pieces."""

    pieces: list[Piece]

    def all_shown(self, prompt: str) -> bool:
        """True if `prompt` contains every piece of the source, so that the model sees all of it."""
        return all(piece.text in prompt for piece in self.pieces)


def view(title: str, source: str, kernels: Collection[str], *, needed: bool = True) -> SourceView:
    """Returns a source as pieces of a prompt, one for each function, between marks that declare it as data;
    the opening mark has the `title`. `kernels` names the kernels that the question is about. If `needed`, a
    long prompt never leaves out these kernels, the launch function and text outside of functions; if not, it
    may leave out any part of the source."""
    clean = INVISIBLE.sub("", source)
    parts = parts_of(clean)
    called = used_by(parts, set(kernels))
    begin, end = marks(title, clean)
    inner = [_piece(part, kernels, called) for part in parts]
    if not needed:
        inner = [replace(piece, importance=min(piece.importance, CALLED)) for piece in inner]
    return SourceView([Piece(begin), *inner, Piece(end)])


def _piece(part: SourcePart, kernels: Collection[str], called: Collection[str]) -> Piece:
    """One part of a source as a piece of a prompt. Where the prompt is too long, functions in `called` (used
    by the `kernels` in question) are left out after other functions; a comment then says how many lines are
    missing."""
    text, named = part.text.removesuffix("\n"), part.name or "more"
    instead = f"// {named}: {part.lines} lines are not shown; they stay as they are"
    if part.name is None or part.name == ENTRY or part.name in kernels:
        return Piece(text, NEEDED, instead)
    return Piece(text, CALLED if part.name in called else OTHER, instead)
