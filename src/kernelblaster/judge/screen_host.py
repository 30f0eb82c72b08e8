"""Screens a candidate's host code for forbidden instructions, as the compiler saw it: macros expanded, device
code removed.

nvcc's front end writes the host half of a file as C++ for the host compiler. In it, bodies of device
functions are between `#if 0` and `#endif`, and line markers name the file that each part came from. So this
is exact where parsing the source would have to guess.

Not checked: code from headers, which is not the candidate's.
"""

import re
from collections.abc import Iterator
from itertools import islice

from kernelblaster.judge.screen_source import HOST_ASSEMBLY, MOST_FINDINGS, ScreenFinding

_MARK = re.compile(
    r'^#(?: (?P<line>\d+)(?: "(?P<file>[^"\n]*)"[^\n]*)?|(?P<opens>if[^\n]*)|(?P<ends>endif))$', re.M
)
_LINE = re.compile(r"# (\d+)", re.A)
_STRING = re.compile(r"""(["'])(?:[^\\\n]|\\.)*?\1""")
_ASSEMBLY = re.compile(r"\b(?:asm|__asm__|__asm)\b")
_COUNTER = re.compile(r"\b(?:__builtin_ia32_|_{1,2})rd(?:tscp?|pmc|pid|rand\w*|seed\w*)\b")


def host_text(front_end: str, file: str) -> str:
    """Returns the part of `front_end`, the output of nvcc's front end (a .cudafe1.cpp file), that comes from
    the source `file` and goes to the host compiler, with line markers like `# 12`."""
    pieces: list[str] = []
    conditions: list[bool] = []  # of the enclosing #if: whether it is `#if 0`
    current, begin = "", 0
    for mark in _MARK.finditer(front_end):
        if current == file and not any(conditions):
            pieces.append(front_end[begin : mark.start()])
        begin = mark.end()
        if mark["opens"]:
            conditions.append(mark["opens"] == "if 0")
        elif mark["ends"]:
            conditions = conditions[:-1]
        else:
            current = mark["file"] or current
            pieces.append(f"\n# {mark['line']}" if current == file else "")
    if current == file and not any(conditions):
        pieces.append(front_end[begin:])
    return "".join(pieces)


def screen_host(text: str) -> list[ScreenFinding]:
    """Returns the reasons, at most 20, why the host code in `text` (the result of `host_text`) may not be
    loaded: inline assembly, and instructions that read clocks or random numbers. Empty if there are none."""
    return list(islice(dict.fromkeys(_findings(text)), MOST_FINDINGS))


def _findings(text: str) -> Iterator[ScreenFinding]:
    """Yields the reasons why host code may not be loaded, in the order of the text, possibly repeated."""
    number = 1
    for line in _STRING.sub('""', text).split("\n"):
        if mark := _LINE.fullmatch(line):
            number = int(mark[1])
            continue
        for match in _ASSEMBLY.finditer(line):
            yield ScreenFinding("host-assembly", HOST_ASSEMBLY.format(match[0]), number)
        for match in _COUNTER.finditer(line):
            detail = f"`{match[0]}` in host code: the judge takes the time, and nothing is random."
            yield ScreenFinding("forbidden-call", detail, number)
        number += 1
