"""Screens a candidate's CUDA source before compilation, so that its author is told early what is not allowed,
with the line and an alternative.

This stage decides which files may be included and which macros defined. Everything else that it reports would
also be rejected by later stages (`screen_host`, `screen_binary`), which check what was really compiled. Here,
calls and assembly are reported only if the syntax tree shows for certain that they are in host code; calls
only if the file defines no function of that name itself. Macros are not expanded.

The limits here and in `source_text` bound the time: milliseconds for a kernel, seconds for a text that was
written to be slow to screen.
"""

import bisect
import itertools
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelblaster.judge.source_text import SourceText, UnreadableSource, read_source


@dataclass(frozen=True)
class ScreenFinding:
    """One reason to reject a candidate: the `rule` that it breaks, a `detail` sentence with an alternative,
    and the 1-based `line`; None where it concerns no single line."""

    rule: str
    detail: str
    line: int | None


RULES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("screen_rules.toml").read_text())
LARGEST_SOURCE = 200_000  # characters, far above any kernel
MOST_FINDINGS = 20  # of one rule
HOST_ASSEMBLY = "`{}` in host code: only __device__ and __global__ functions may contain assembly."

_SOURCE = RULES["source"]
_CALL = re.compile(r"(?<!\w)(?:(\w*)::\s*)?([A-Za-z_]\w*)\s*\(", re.A)
_ASSEMBLY = re.compile(r"\b(?:asm|__asm__|__asm)\b", re.A)
_RESERVED = re.compile(r"\b(?:kernelblaster_\w*|__cuda\w*|_IO_\w+|_fileno)\b", re.A)
_STD = re.compile(rf"(?<!cuda::)\bstd\s*::\s*({'|'.join(_SOURCE['std_names'])})\b", re.A)
_ATTRIBUTE = re.compile(
    r"""\b(?:__attribute(?:__)?|__declspec)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)
      | \[\s*\[[^][]*\]\s*\]""",
    re.X,
)


def screen_source(source: str) -> list[ScreenFinding]:
    """Every reason why the CUDA `source` may not be compiled, sorted by line; an empty list if there is
    none."""
    if len(source) > LARGEST_SOURCE:
        return [ScreenFinding("source-size", f"Longer than {LARGEST_SOURCE} characters: shorten it.", None)]
    try:
        text = read_source(source)
    except UnreadableSource as unreadable:
        detail = f"The source contains {unreadable.what}: write it plainly."
        return [ScreenFinding("misleading-text", detail, unreadable.line)]
    rules: list[Iterable[ScreenFinding]] = [
        _directives(text),
        _assembly(text),
        _attributes(text),
        _names(text),
        _calls(text),
        _foreign_declarations(text),
    ]
    findings = [finding for rule in rules for finding in itertools.islice(rule, MOST_FINDINGS)]
    return sorted(dict.fromkeys(findings), key=lambda finding: finding.line or 0)


def matches(name: str, patterns: list[str]) -> bool:
    """True if `name` matches one of `patterns`, a list from the rules file; a pattern with a `*` at its end
    matches every name that begins with the text before the `*`."""
    return any(name == p or (p.endswith("*") and name.startswith(p[:-1])) for p in patterns)


def hint(name: str, hints: dict[str, str]) -> str | None:
    """What a candidate may use instead of the forbidden `name`, from `hints`, a table of the rules file by
    name or pattern (with a `*` at its end). An exact name counts before a pattern, a longer pattern before a
    shorter one. None if there is no hint."""
    beginnings = (name[:length] + "*" for length in range(len(name), 0, -1))
    return hints.get(name) or next((hints[p] for p in beginnings if p in hints), None)


# --- the rules ----------------------------------------------------------------------------------


def _directives(text: SourceText) -> Iterator[ScreenFinding]:
    """Yields a finding for each preprocessor directive in the candidate's `text` that is not allowed:
    forbidden ones, headers, pragmas, and macros that redefine protected names."""
    for match in text.directives:
        name, rest = match[2], text.kept[match.start(3) : match.end(3)].strip()
        if match[1] != "#" or name not in _SOURCE["directives"]:
            rule, detail = "forbidden-directive", f"`{match[1]}{name}` may not be used: write it out."
        elif name == "include" and (wrong := _wrong_include(rest)):
            rule, detail = "forbidden-include", wrong
        elif name == "pragma" and (wrong := _wrong_pragma(rest)):
            rule, detail = "forbidden-pragma", wrong
        elif name in ("define", "undef") and _is_protected(macro := re.split(r"\W", rest)[0]):
            rule = "forbidden-macro"
            detail = f"`#{name} {macro}` redefines a name of C++, CUDA or the judge: choose another."
        else:
            continue
        yield ScreenFinding(rule, detail, text.line(match.start(1)))
    for match in re.finditer(r"\b__has_(?:include|include_next|embed)\b", text.code):
        detail = f"`{match[0]}` looks at the build machine's files: include what you need."
        yield ScreenFinding("forbidden-directive", detail, text.line(match.start()))
    for match in re.finditer(r'\b_Pragma\s*\(\s*"((?:[^"\\\n]|\\.)*)"', text.kept):
        if wrong := _wrong_pragma(match[1]):
            yield ScreenFinding("forbidden-pragma", wrong, text.line(match.start()))


def _wrong_include(rest: str) -> str | None:
    """Why a header may not be included, in words for the candidate's author; None if it may. `rest` is the
    text after `#include`."""
    match = re.fullmatch(r'<([^<>"]+)>|"([^<>"]+)"', rest)
    if match is None:
        return f"`#include {rest}` does not name a header: write the header's name out."
    header = match[1] or match[2]
    if header.startswith("/") or "\\" in header or ".." in header.split("/"):
        return f"`#include {rest}` leaves the include folders: a candidate is one file."
    if matches(header, _SOURCE["includes"]):
        return None
    instead = hint(header, _SOURCE["include_hints"])
    if match[2] and instead is None:  # a file of one's own: most often the printed header
        return (
            f"`#include {rest}` may not be used, a candidate is one file. If this is the declaration that "
            "`tasks show --header` prints: the declaration is included for you, remove this line."
        )
    instead = instead or "it is not on the list of allowed headers"
    return f"<{header}> may not be included: {instead}."


def _wrong_pragma(rest: str) -> str | None:
    """Why a pragma may not be used, in words for the candidate's author; None if it may. `rest` is the text
    after `#pragma`."""
    words = re.findall(r"\w+", rest)[:2]
    allowed = matches(words[0], _SOURCE["pragmas"]) if words else True
    if allowed or matches(" ".join(words), _SOURCE["pragmas"]):
        return None
    return f"`#pragma {' '.join(words)}` may not be used: only those that tune code or warnings."


def _is_protected(macro: str) -> bool:
    """Whether a macro may not be defined or undefined, because C++, CUDA or the judge uses the name."""
    return macro in RULES["binary"]["cuda"] or matches(macro, _SOURCE["macros"])


def _assembly(text: SourceText) -> Iterator[ScreenFinding]:
    """Yields findings on inline assembly in what is certainly host code."""
    for match in _ASSEMBLY.finditer(text.plain):
        if match.start() in text.host:
            yield ScreenFinding("host-assembly", HOST_ASSEMBLY.format(match[0]), text.line(match.start()))


def _attributes(text: SourceText) -> Iterator[ScreenFinding]:
    """Yields a finding for each attribute in the candidate's `text` that changes what runs or where it lies,
    such as constructors and sections."""
    for match in _ATTRIBUTE.finditer(text.code):
        for word in re.findall(r"\w+", match[0]):
            if word.strip("_") in _SOURCE["attributes"]:
                detail = f"The attribute `{word}` changes what runs or where it lies: leave it out."
                yield ScreenFinding("forbidden-attribute", detail, text.line(match.start()))


def _names(text: SourceText) -> Iterator[ScreenFinding]:
    """Yields findings on reserved names and on parts of `std` that candidates may not use."""
    for match in _RESERVED.finditer(text.code):
        detail = f"The name `{match[0]}` belongs to the judge or to a library: choose another."
        yield ScreenFinding("reserved-name", detail, text.line(match.start()))
    for match in _STD.finditer(text.code):
        detail = f"`std::{match[1]}` may not be used: no threads, clocks, files or handlers."
        yield ScreenFinding("forbidden-call", detail, text.line(match.start()))


def _calls(text: SourceText) -> Iterator[ScreenFinding]:
    """Yields findings on calls, in what is certainly host code, of functions for which the rules file names
    an alternative."""
    known = text.syntax.introduced | set(RULES["binary"]["cuda"])
    for match in _CALL.finditer(text.plain):
        scope, name, offset = match[1], match[2], match.start(2)
        if name in known or scope not in (None, "", "std") or offset not in text.host:
            continue
        before = text.plain[max(0, match.start() - 40) : match.start()].rstrip()
        if before.endswith((".", "->")) or (scope == "" and before.endswith(">")):
            continue  # a member of an object, or of a template
        if instead := hint(name, RULES["hints"]):
            yield ScreenFinding(
                "forbidden-call", f"`{name}` may not be called: {instead}.", text.line(offset)
            )


def _foreign_declarations(text: SourceText) -> Iterator[ScreenFinding]:
    """Yields findings on names that `extern "C"` declares and the file does not define: they would import a
    library's symbol."""
    own = text.syntax.defined | {"launch_gpu_implementation", None}
    marks = [(found.start(), found[0]) for found in re.finditer("[{};]", text.plain)]
    for found in re.finditer(r'\bextern\s*"C"', text.kept):
        for offset, statement, block in _statements(text.plain, marks, found.end()):
            if (name := _foreign_name(statement, block)) not in own:
                detail = f'`extern "C"` declares `{name}`, which the file does not define: define it.'
                yield ScreenFinding("foreign-declaration", detail, text.line(offset))


def _statements(plain: str, marks: list[tuple[int, str]], start: int) -> Iterator[tuple[int, str, bool]]:
    """Yields (offset, text, whether it is in a block) of each declaration without a body that an `extern "C"`
    ending at offset `start` covers: one, or those between braces. `marks` are the (offset, character) of all
    braces and semicolons in `plain`; matching by these ensures that errors in the syntax tree hide none."""
    depth, block = 0, False
    begin = start
    for index in range(bisect.bisect_left(marks, (start, "")), len(marks)):
        at, mark = marks[index]
        if mark == "{":
            opens = depth == 0 and not block and not plain[start:at].strip()
            block, depth = block or opens, depth + (not opens)
        elif mark == "}":
            depth -= 1
        elif depth == 0:
            yield begin, plain[begin:at], block
        if depth < 0 or (depth == 0 and not block):
            return
        if depth == 0:
            begin = at + 1


def _foreign_name(statement: str, block: bool) -> str | None:
    """The name that a declaration under `extern "C"` imports; None if it defines the name or declares a type.
    In a `block`, a variable without a further `extern` is a definition."""
    first = (statement.split() or [""])[0]
    if first in ("", "typedef", "using", "static", "struct", "enum", "class", "union"):
        return None
    if called := re.search(r"\b(?!__attribute|__launch_bounds__|alignas)(\w+)\s*\(", statement):
        return called[1]
    variable = re.search(r"(\w+)\s*(?:\[[^]]*\]\s*)*$", statement)
    if variable is None or "=" in statement or (block and first != "extern"):
        return None
    return variable[1]
