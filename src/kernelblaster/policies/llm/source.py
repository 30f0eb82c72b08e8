"""Splits a candidate's source into functions and the text between them, so that prompts can show parts of
it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

LEXEME = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|[{};]|\n", re.DOTALL)
KERNEL = re.compile(r"__global__[^;{]*?\b(\w+)\s*\(")
KERNEL_NAME = re.compile(r"(?:\bvoid|\))\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(")
FUNCTION = re.compile(r"\b(\w+)\s*\([^;{}]*\)\s*(?:const\s*)?\{", re.DOTALL)
NOT_NAMES = {"if", "for", "while", "switch", "__launch_bounds__", "__align__", "sizeof", "defined"}
ENTRY = "launch_gpu_implementation"


@dataclass(frozen=True)
class SourcePart:
    """Consecutive whole lines (`text`) of a source that hold one function or declaration. `name` is the
    function that they define, None if they define none. `kernel` is True if that function is `__global__`."""

    text: str
    name: str | None
    kernel: bool = False

    @property
    def lines(self) -> int:
        return self.text.count("\n")


def parts_of(source: str) -> list[SourcePart]:
    """Splits a source into parts, one for each function or declaration, in their order. The parts put
    together again are exactly the source."""
    return [_part(text) for text in _split(source)]


def kernel_names(source: str) -> list[str]:
    """Returns the names of the `__global__` functions that a source defines, in the order of their
    definitions, each once."""
    return list(dict.fromkeys(part.name for part in parts_of(source) if part.kernel and part.name))


def used_by(parts: Sequence[SourcePart], names: set[str]) -> set[str]:
    """Returns `names`, names of functions, together with the names of all functions that these call, directly
    or through others, as far as they are defined in `parts` (the parts of one source). Any mention of a
    function's name counts as a call."""
    bodies = {part.name: part.text for part in parts if part.name}
    used, waiting = set(names), list(names)
    while waiting:
        words = set(re.findall(r"\w+", bodies.get(waiting.pop(), "")))
        new = (words & bodies.keys()) - used
        used |= new
        waiting += new
    return used


def _split(source: str) -> Iterator[str]:
    """The source in texts of whole lines, each ending with the end of a definition or declaration at the
    outermost level."""
    begin = depth = 0
    ended = False
    for match in LEXEME.finditer(source):
        mark = match[0]
        if mark == "{":
            depth += 1
        elif mark == "}":
            depth = max(0, depth - 1)
            ended = depth == 0
        elif mark == ";":
            ended = depth == 0
        elif mark == "\n" and ended and depth == 0:
            yield source[begin : match.end()]
            begin, ended = match.end(), False
    if begin < len(source):
        yield source[begin:]


def _part(text: str) -> SourcePart:
    """The part of a source that `text`, some whole lines of it, is: with the name of the function that it
    defines, if any."""
    kernel = KERNEL.search(text)
    if kernel:
        bounded = [name for name in KERNEL_NAME.findall(text) if name not in NOT_NAMES]
        return SourcePart(text, bounded[0] if bounded else kernel[1], kernel=True)
    names = [name for name in FUNCTION.findall(text) if name not in NOT_NAMES]
    return SourcePart(text, names[0] if names else None)
