"""A candidate's code without anything that could speak to its reader: no comments, no strings, no names
of its author's choosing for functions, and none that are sentences."""

import re

from kernelblaster.judge.source_text import read_source
from kernelblaster.policies.llm.source import ENTRY, parts_of

QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"')
ASSEMBLY = re.compile(r"\basm\b[^;]*;", re.DOTALL)
PTX_COMMENT = re.compile(r"//(?:[^\"\\]|\\[^n])*|/\*.*?\*/", re.DOTALL)
NAME = re.compile(r"\b[A-Za-z_]\w*\b")
SENTENCE = 4  # words in a name, or this many letters: more than a name needs
LETTERS = 32
OWN = re.compile(r"cuda\w+|__\w+|launch_gpu_implementation|\w+_t")


def neutral(source: str) -> str:
    """The code as the compiler sees it, with neutral names. Raises `Unreadable` for text that can be read
    in two ways."""
    code = _without_strings(read_source(source).kept)
    names: dict[str, str] = {}
    for part in parts_of(code):
        if part.name and part.name != ENTRY:
            kind = "kernel" if part.kernel else "function"
            names.setdefault(part.name, f"{kind}_{len(names) + 1}")
    renamed = NAME.sub(lambda found: names.get(found[0]) or _plain(found[0], names), code)
    return _indented(renamed)


def _indented(code: str) -> str:
    """Lines as the nesting of braces indents them: not even spaces are the author's."""
    lines, depth = [], 0
    for line in code.splitlines():
        text = " ".join(line.split())
        if text:
            lines.append("  " * (depth - text.startswith("}")) + text)
            depth = max(0, depth + text.count("{") - text.count("}"))
    return "\n".join(lines) + "\n"


def _plain(name: str, names: dict[str, str]) -> str:
    if OWN.fullmatch(name) or (len(name) <= LETTERS and len(re.findall(r"[^_]+", name)) < SENTENCE):
        return name
    return names.setdefault(name, f"name_{len(names) + 1}")


def _without_strings(text: str) -> str:
    """Without what strings say; those of inline assembly are code, except for comments in them."""
    pieces, end = [], 0
    for found in ASSEMBLY.finditer(text):
        pieces.append(QUOTED.sub('""', text[end : found.start()]))
        pieces.append(QUOTED.sub(lambda one: PTX_COMMENT.sub("", one[0][:-1]) + '"', found[0]))
        end = found.end()
    return "".join([*pieces, QUOTED.sub('""', text[end:])]).replace('extern ""', 'extern "C"')
