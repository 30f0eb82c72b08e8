"""Renders prompts from templates; if a prompt is too long, its least important pieces are left out until it
fits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from kernelblaster.models.tokens import tokens_of

NEEDED = 100  # the importance of what a prompt makes no sense without
_templates = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=False,
    autoescape=False,  # the text is for models, not for browsers
)


class PromptTooLong(Exception):
    """A prompt exceeds its role's limit even after everything was left out that may be. `tokens` is its
    length then."""

    def __init__(self, role: str, tokens: int, budget: int) -> None:
        self.tokens = tokens
        super().__init__(f"{role}: needs {tokens} tokens; its budget is {budget}")


@dataclass(frozen=True)
class Piece:
    """A part of a prompt that is shown whole or not at all. If the prompt is too long, pieces of lower
    `importance` are left out first, those of importance 100 (NEEDED) never; `instead` is shown in place of a
    piece that was left out."""

    text: str
    importance: int = NEEDED
    instead: str = ""

    @property
    def saved(self) -> int:
        """By how many tokens, estimated, the prompt is shorter without this piece, with `instead` in its
        place."""
        return tokens_of(self.text) - tokens_of(self.instead)


Sections = Mapping[str, str | Sequence[Piece]]


@dataclass(frozen=True)
class Room:
    """The limits of a prompt in tokens: less important parts are left out until it takes at most
    `comfortable`; the parts that it needs may take up to `most`."""

    comfortable: int
    most: int


def less_room(room: Room | int, tokens: int) -> Room | int:
    """The token limits `room` of a prompt, lowered by the `tokens` that another part of it takes."""
    if isinstance(room, int):
        return room - tokens
    return Room(room.comfortable - tokens, room.most - tokens)


def render(template: str, role: str, room: Room | int, sections: Sections) -> str:
    """The text of `template` (a file beside this one) with its `sections` filled in. Pieces of them are left
    out, the least important first and among equals the longest, until it fits `room` (an int: both limits,
    in tokens). Raises `PromptTooLong`, with the name of the `role`, if it does not fit even without them."""
    room = Room(room, room) if isinstance(room, int) else room
    pieces = {name: _pieces(section) for name, section in sections.items()}
    droppable = sorted(
        ((name, at) for name, listed in pieces.items() for at, p in enumerate(listed) if _spare(p)),
        key=lambda position: (
            pieces[position[0]][position[1]].importance,
            -pieces[position[0]][position[1]].saved,
        ),
    )
    text = _filled(template, pieces)
    while droppable and (over := tokens_of(text) - room.comfortable) > 0:
        while over > 0 and droppable:
            name, at = droppable.pop(0)
            piece = pieces[name][at]
            over -= piece.saved
            pieces[name][at] = Piece(piece.instead)
        text = _filled(template, pieces)
    if tokens_of(text) > room.most:
        raise PromptTooLong(role, tokens_of(text), room.most)
    return text


def _pieces(section: str | Sequence[Piece]) -> list[Piece]:
    return [Piece(section)] if isinstance(section, str) else list(section)


def _spare(piece: Piece) -> bool:
    """Whether a prompt may leave this piece out, and would be shorter for it."""
    return piece.importance < NEEDED and piece.saved > 0


def _filled(template: str, pieces: Mapping[str, Sequence[Piece]]) -> str:
    """The template with each section replaced by the texts of its pieces, one per line."""
    texts = {name: "\n".join(p.text for p in listed if p.text) for name, listed in pieces.items()}
    return _templates.get_template(template).render(**texts).strip() + "\n"
