"""Renders prompts from templates; if a prompt is too long, its least important pieces are left out until it
fits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from kernelblaster.models.tokens import tokens_of

SHARE = 4
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
    """A prompt of a role exceeds the role's limit although everything optional was left out of it. `tokens`
    is its length after that, `budget` the limit, both in tokens."""

    def __init__(self, role: str, tokens: int, budget: int) -> None:
        self.tokens = tokens
        super().__init__(f"{role}: needs {tokens} tokens; its budget is {budget}")


@dataclass(frozen=True)
class Piece:
    """A part of a prompt, `text`, that is shown whole or not at all. If the prompt is too long, pieces of
    lower `importance` are left out first, those of importance 100 (NEEDED) never; `instead` is shown in place
    of a piece that was left out."""

    text: str
    importance: int = NEEDED
    instead: str = ""

    @property
    def saved(self) -> int:
        """The estimated number of tokens by which a prompt becomes shorter if the text `instead` takes the
        place of this piece."""
        return tokens_of(self.text) - tokens_of(self.instead)


Sections = Mapping[str, str | Sequence[Piece]]


@dataclass(frozen=True)
class Room:
    """The limits of a prompt, in tokens. Optional pieces are left out until the prompt has at most
    `comfortable` tokens. If the required pieces (such as the source) take nearly all of these, the limit
    rises so that a quarter of `comfortable` (SHARE) remains for optional pieces, such as what the knowledge
    base says; it never rises above `most`."""

    comfortable: int
    most: int

    def limit(self, needed: int) -> int:
        """Returns the limit, in tokens, of a prompt whose required pieces have `needed` tokens."""
        return min(self.most, max(self.comfortable, needed + self.comfortable // SHARE))


def less_room(room: Room | int, tokens: int) -> Room | int:
    """Returns the limits of a prompt, in tokens, before a text of `tokens` tokens is added to it, so that
    both together keep to `room`: each limit in `room` lowered by `tokens`. An int is a single limit; the
    result then is an int too."""
    if isinstance(room, int):
        return room - tokens
    return Room(room.comfortable - tokens, room.most - tokens)


def render(template: str, role: str, room: Room | int, sections: Sections) -> str:
    """Returns the prompt that `template` (the name of a file in this folder) gives with `sections` filled in.
    If it is longer than `room` allows, pieces of the sections are left out, the least important first and
    among equally important ones the longest. `room` is in tokens; an int stands for both limits. Raises
    `PromptTooLong`, which names the `role`, if the prompt is too long even without all optional pieces."""
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
    limit = room.limit(tokens_of(text) - sum(pieces[name][at].saved for name, at in droppable))
    while droppable and (over := tokens_of(text) - limit) > 0:
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
