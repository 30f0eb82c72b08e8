"""Prepares a candidate's code for review by a language model: removes everything by which its author could
address that model. Removed are comments and strings; names that the author chose for functions and types;
other names that read as sentences; and text that is no code, such as what the preprocessor drops."""

import re

from kernelblaster.judge.source_text import read_source
from kernelblaster.policies.llm.source import ENTRY, parts_of

_TEXT = r'(?:\b(?:u8|[uUL])?R"(?P<mark>[^()\\\s"]{0,16})\(.*?\)(?P=mark)"|"(?:[^"\\\n]|\\.)*")'
QUOTED = re.compile(_TEXT, re.DOTALL)
ASSEMBLY = re.compile(rf'\b(?:__)?asm(?:__)?\b(?>{_TEXT}|[^;"])*+;', re.DOTALL)  # strings have semicolons
PTX_COMMENT = re.compile(r"//(?:[^\"\\]|\\[^n])*|/\*.*?\*/", re.DOTALL)
NAME = re.compile(r"\b[A-Za-z_]\w*\b")
TYPE = re.compile(r"\b(?:struct|class|union|enum|namespace)\s+([A-Za-z_]\w*)")
PROSE = re.compile(r"\b[A-Za-z_]\w*(?:[ \t]+[A-Za-z_]\w*){2,}")
KEYWORD = re.compile(
    "alignas|alignof|auto|bool|break|case|char|class|const|constexpr|continue|default|define|defined|delete|do|"
    "double|else|endif|enum|explicit|extern|false|final|float|for|friend|half|if|ifdef|ifndef|include|inline|"
    "int|long|mutable|namespace|new|noexcept|nullptr|operator|pragma|private|public|register|restrict|return|"
    "short|signed|sizeof|static|static_assert|struct|switch|template|this|true|typedef|typename|undef|union|"
    "unroll|unsigned|using|virtual|void|volatile|while"
)
WORD = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")
HEAD = re.compile(r"(?:\} ?)?(?:else|if|for|while|do)\b")
UNFINISHED = re.compile(r"(?:[-=+*/%&|^?,<]| :)$")
SENTENCE = 4  # words in a name, or this many letters: more than a name needs
LETTERS = 32
OWN = re.compile(r"cuda\w+|__\w+|launch_gpu_implementation|\w+_t")


def neutral(source: str) -> str:
    """Returns the source without anything that could address a language model that reads it: comments and
    strings are removed, functions, types and long names are renamed, prose is blanked, and lines are indented
    anew. The result is only for reading and need not compile. Raises `UnreadableSource` for a source that
    different compilers might read in two ways."""
    code = _without_strings(read_source(source).kept)
    names: dict[str, str] = {}
    for part in parts_of(code):
        if part.name and part.name != ENTRY:
            kind = "kernel" if part.kernel else "function"
            names.setdefault(part.name, f"{kind}_{len(names) + 1}")
    for match in TYPE.finditer(code):
        names.setdefault(match[1], f"type_{len(names) + 1}")
    code = PROSE.sub(_silenced, code)
    renamed = NAME.sub(lambda match: names.get(match[0]) or _plain(match[0], names), code)
    return _indented(renamed)


def _indented(code: str) -> str:
    """The code, indented anew by its nesting, so that the author's own spacing carries no message."""
    lines: list[str] = []
    levels = [0]  # the indent inside each brace that is open
    under = opened = 0  # heads (`if`, `for`) that wait for their statement; open parentheses
    goes_on = head = False  # whether the line before was no whole statement, and whether it began with a head
    for line in code.splitlines():
        text = " ".join(line.split())
        if not text:
            continue
        if text[0] in "{}":
            under, goes_on = 0, False
        base = max(0, levels[-1] + under - text.startswith("}"))
        lines.append("  " * (base + goes_on) + text)
        if text.startswith("#"):
            continue
        head = bool(HEAD.match(text)) if not goes_on else head
        opened = max(0, opened + text.count("(") - text.count(")"))
        for brace in re.findall("[{}]", text):
            levels = [*levels, base + 1] if brace == "{" else levels[:-1] or [0]
        goes_on = opened > 0 or bool(UNFINISHED.search(text))
        if opened == 0 and text[-1] in ";{}":
            under = 0
        elif head and not goes_on:
            under += 1
    return "\n".join(lines) + "\n"


def _plain(name: str, names: dict[str, str]) -> str:
    """Returns the name itself if it is short or not the author's own (CUDA's, types). Otherwise returns a
    neutral name such as `name_3`, and adds it to `names`, so that the same name is replaced by it
    everywhere."""
    if OWN.fullmatch(name) or (len(name) <= LETTERS and len(WORD.findall(name)) < SENTENCE):
        return name
    return names.setdefault(name, f"name_{len(names) + 1}")


def _silenced(match: re.Match[str]) -> str:
    """Returns what replaces a run of three or more words in a source (`match`). If more than two of them are
    neither keywords nor CUDA names, it is prose and no code, and the text "words" replaces it; otherwise it
    stays."""
    words = match[0].split()
    foreign = [word for word in words if not KEYWORD.fullmatch(word) and not OWN.fullmatch(word)]
    return "words" if len(foreign) > 2 else match[0]


def _without_strings(text: str) -> str:
    """The text with all string literals emptied, except those of inline assembly, which are code: they lose
    only their comments."""
    pieces, end = [], 0
    for match in ASSEMBLY.finditer(text):
        pieces.append(QUOTED.sub('""', text[end : match.start()]))
        pieces.append(QUOTED.sub(lambda one: PTX_COMMENT.sub("", one[0][:-1]) + '"', match[0]))
        end = match.end()
    return "".join([*pieces, QUOTED.sub('""', text[end:])]).replace('extern ""', 'extern "C"')
