"""Syntax highlighting of CUDA C++ and Python. Comments and strings are always recognized; unknown text stays
plain, and nothing fails."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup, escape

from kernelblaster.plain_text import printable

Language = Literal["cuda", "python", "text"]
VERBOSE = re.VERBOSE | re.DOTALL | re.MULTILINE


@dataclass(frozen=True)
class Grammar:
    """The lexical rules of a language. `tokens` matches one token, with a named group for its class, or
    `word`. A word that fully matches `keyword`, `type` or `builtin` has that class; another one is a function
    if the character after it is in `calls`."""

    tokens: re.Pattern[str]
    keyword: re.Pattern[str]
    type: re.Pattern[str]
    builtin: re.Pattern[str]
    calls: str

    def word(self, word: str, after: str) -> str:
        """The class letter of a word (k, t, b or f; empty for a plain name); `after` is the character behind
        it."""
        for name in ("keyword", "type", "builtin"):
            if getattr(self, name).fullmatch(word):
                return name[0]
        return "f" if after and after in self.calls else ""


# Each pattern must take linear time: sources are untrusted.
CUDA = Grammar(
    tokens=re.compile(
        r"""
          (?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
        | (?P<string>R"(?P<mark>[^\s()\\"]{0,16})\(.{0,4000}?\)(?P=mark)"
                    |"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])+'?)
        | (?P<directive>^[ \t]*\#[ \t]*\w*)
        | (?P<number>\.?\d(?:[eEpP][+-]|'?\w|\.)*)
        | (?P<word>[A-Za-z_]\w*)
        """,
        VERBOSE,
    ),
    keyword=re.compile(
        r"""alignas|asm|auto|break|case|catch|class|const|constexpr|continue|decltype|default|delete|do|else|
        enum|explicit|extern|false|for|friend|goto|if|inline|namespace|new|noexcept|nullptr|operator|private|
        public|register|reinterpret_cast|return|sizeof|static|static_assert|static_cast|struct|switch|
        template|this|throw|true|try|typedef|typename|union|using|virtual|volatile|while""",
        VERBOSE,
    ),
    type=re.compile(
        r"""bool|char|u?(?:int|long|short)[1-4]?|float[234]?|double[234]?|signed|unsigned|void|size_t|
        u?int(?:8|16|32|64)_t|half2?|bfloat16|__half2?|__nv_bfloat162?|dim3|cuda\w+_t""",
        VERBOSE,
    ),
    builtin=re.compile(r"(?:thread|block)Idx|(?:block|grid)Dim|warpSize|__\w+"),
    calls="(<",
)
PYTHON = Grammar(
    tokens=re.compile(
        r'''
          (?P<comment>\#[^\n]*)
        | (?P<string>(?:\b[rRbBuUfF]{1,2})?
            (?:"""(?:\\.|.)*?(?:"""|\Z)|\'\'\'(?:\\.|.)*?(?:\'\'\'|\Z)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))
        | (?P<directive>^[ \t]*@[\w.]+)
        | (?P<number>\.?\d(?:[eE][+-]|\w|\.)*)
        | (?P<word>[A-Za-z_]\w*)
        ''',
        VERBOSE,
    ),
    keyword=re.compile(
        r"""False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|
        for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield""",
        VERBOSE,
    ),
    type=re.compile(r"bool|bytes|dict|float|int|list|set|str|tuple"),
    builtin=re.compile(r"len|print|range|self|super|zip|__\w+"),
    calls="(",
)
GRAMMARS = {"cuda": CUDA, "python": PYTHON}


def highlight(text: str, language: Language) -> list[Markup]:
    """The lines of a text as escaped HTML, with tokens as `<i class=...>`. Control characters and those that
    change the text direction are shown as escapes."""
    lines: list[list[str]] = [[]]
    for kind, part in tokens(printable(text), language):
        first, *others = part.split("\n")
        lines[-1].append(_marked(kind, first))
        lines += [[_marked(kind, other)] for other in others]
    return [Markup("".join(parts)) for parts in lines]


def tokens(text: str, language: Language) -> Iterator[tuple[str, str]]:
    """The text in parts, each with its class: c(omment), s(tring), d(irective), n(umber), k(eyword), t(ype),
    b(uiltin), f(unction), or empty. Concatenated, the parts are the text."""
    grammar = GRAMMARS.get(language)
    end = 0
    for match in grammar.tokens.finditer(text) if grammar else ():
        assert grammar is not None
        if match.start() > end:
            yield "", text[end : match.start()]
        end = match.end()
        word = match["word"]
        if word:
            yield grammar.word(word, text[end : end + 1]), word
        else:
            yield next(name[0] for name, part in match.groupdict().items() if part), match[0]
    if end < len(text):
        yield "", text[end:]


def _marked(kind: str, text: str) -> str:
    """HTML; the text is escaped."""
    if not kind or not text:
        return escape(text)
    return f"<i class={kind}>{escape(text)}</i>"
