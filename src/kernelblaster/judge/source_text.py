"""Reads a candidate's source as the preprocessor does, and tells its device code from its host code.

Lines are joined and comments are gone before anything else looks at the text. A syntax tree then
says which functions are device code; where the tree has errors, braces are matched instead, so a
region that the grammar does not know hides nothing. Text that can be read in two ways raises
`Unreadable`.

Not covered: what macros make of the text, except that words of a function's header which always stand
for `__device__` or `__global__`, or ever for `__host__`, count as such.
"""

import bisect
import re
from collections.abc import Iterator
from dataclasses import dataclass

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser

DEEPEST_NESTING = 200  # of brackets; more would keep the parser busy for long

_LANGUAGE = Language(tree_sitter_cuda.language())
# Invisible or direction-changing characters: what a person reads is not what is compiled.
_DECEPTIVE = re.compile("[\x00-\x08\x0d-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
_LEXEME = re.compile(
    r"""(?=[/"'.0-9RuUL\n])(?:  # saves time: no lexeme begins otherwise
        (?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
      | (?P<raw>(?<!\w)(?:u8|[uUL])?R"(?P<mark>[^()\\\s"]{0,16})\(.*?\)(?P=mark)")
      | (?P<unclear>(?<!\w)(?:u8|[uUL])?R")
      | (?P<number>(?<!\w)\.?[0-9](?:[eEpP][+-]|'\w|[\w.])*)
      | (?P<quoted>"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*')
      | (?P<unterminated>["'][^\n]*)
      | (?P<newline>\n))""",
    re.X | re.S | re.A,
)
_DIRECTIVE = re.compile(r"^[ \t\f\v]*(#|%:|\?\?=)[ \t\f\v]*(\w*)[ \t\f\v]*(.*)$", re.M | re.A)
_STATEMENTS = {"if", "for", "while", "switch", "case", "default", "catch", "else", "do", "return"}
_BRACES = re.compile(r"^[ \t\f\v]*#.*$|[(){};]", re.M)


@dataclass(frozen=True)
class SourceText:
    """Views of one source with the same offsets and line numbers: `kept` is without comments,
    `code` also without what strings contain, `plain` also without directives."""

    kept: str
    code: str
    plain: str
    directives: list[re.Match[str]]
    syntax: "Syntax"
    device: "DeviceCode"

    def line(self, offset: int) -> int:
        """The 1-based line of an offset."""
        return self.kept.count("\n", 0, offset) + 1


class Unreadable(Exception):
    """The text can be read in two ways, so nothing else can be said about it: `what` it contains,
    and on which `line`, which is 1-based."""

    def __init__(self, text: str, offset: int, what: str) -> None:
        self.what = what
        self.line = text.count("\n", 0, offset) + 1
        super().__init__(f"line {self.line}: {what}")


def read_source(source: str) -> SourceText:
    """All views of `source`. Raises `Unreadable`. Time is bounded only if its length is."""
    source = source.replace("\r\n", "\n")
    if found := _DECEPTIVE.search(source):
        raise Unreadable(source, found.start(), "an invisible or control character")
    kept = _without_comments(*_join_lines(source))
    code = _LEXEME.sub(_blank_quoted, kept)
    if found := re.search(r"[^\x00-\x7f]|\$", code):
        raise Unreadable(kept, found.start(), f"{found[0]!r} outside comments and strings")
    directives = list(_DIRECTIVE.finditer(code))
    plain = _DIRECTIVE.sub(lambda found: " " * len(found[0]), code)
    if _nesting(code) > DEEPEST_NESTING:
        raise Unreadable(kept, 0, f"brackets nested more than {DEEPEST_NESTING} deep")
    # One byte a character, so that the tree's offsets are ours.
    tree = Parser(_LANGUAGE).parse(kept.encode("ascii", "replace"))
    syntax = Syntax(tree.root_node)
    return SourceText(kept, code, plain, directives, syntax, DeviceCode(code, directives, syntax))


class Syntax:
    """What the rules need of the tree. One walk: queries take long on deep trees."""

    def __init__(self, root: Node) -> None:
        self.errors: list[Node] = []
        self.functions: list[Node] = []
        self.defined: set[str] = set()  # functions, and variables that may be called
        self.declared: set[int] = set()  # where functions are declared or defined, not called
        for node in _walk(root):
            if node.type == "ERROR":
                self.errors.append(node)
            elif node.type == "function_definition":
                self.functions.append(node)
                self.defined.add(_declared_name(node))
            elif node.type == "init_declarator":
                self.defined.add(_declared_name(node))
            elif node.type == "function_declarator":
                name = node.child_by_field_name("declarator")
                self.declared.add(name.start_byte if name is not None else node.start_byte)


def _walk(root: Node) -> Iterator[Node]:
    cursor = root.walk()
    while True:
        if cursor.node is not None and cursor.node.is_named:
            yield cursor.node
        if not cursor.goto_first_child():
            while not cursor.goto_next_sibling():
                if not cursor.goto_parent():
                    return


def _declared_name(node: Node) -> str:
    """The name within nested declarators (a pointer to, a function of); empty if there is none."""
    inner: Node | None = node
    for _ in range(20):
        if inner is None or inner.type == "identifier":
            break
        inner = inner.child_by_field_name("declarator")
    return (inner.text or b"").decode() if inner is not None else ""


def _join_lines(source: str) -> tuple[str, list[int]]:
    """`source` with backslash-newlines deleted, and where they were. The newlines come back at the
    end of the joined line, which keeps line numbers."""
    pieces: list[str] = []
    joints: list[int] = []
    length = owed = 0
    for line in source.split("\n"):
        stripped = line.rstrip(" \t\f\v")
        if stripped.endswith("\\"):
            piece, owed = stripped[:-1], owed + 1
            joints.append(length + len(piece))
        else:
            piece, owed = line + "\n" * (owed + 1), 0
        pieces.append(piece)
        length += len(piece)
    return "".join(pieces), joints


def _without_comments(joined: str, joints: list[int]) -> str:
    """Each comment becomes one space. Newlines inside it move to the end of its line, because a
    directive goes on after a comment. Raw strings that compilers might read differently raise."""
    owed = 0

    def replace(found: re.Match[str]) -> str:
        nonlocal owed
        start, end = found.span()
        match found.lastgroup:
            case "comment":
                owed += found[0].count("\n")
                return " "
            case "newline":
                lines, owed = owed + 1, 0
                return "\n" * lines
            case "raw":
                line = joined[joined.rfind("\n", 0, start) + 1 : start].lstrip()
                multiline = "\n" in found[0] and line.startswith(("#", "%:"))
                if multiline or bisect.bisect_left(joints, start) < bisect.bisect_left(joints, end):
                    raise Unreadable(joined, start, "a raw string across joined lines")
            case "unclear":
                raise Unreadable(joined, start, "a raw string without an end")
        return found[0]

    return _LEXEME.sub(replace, joined)


def _nesting(code: str) -> int:
    """How deep brackets are nested, closed or not."""
    depth = deepest = 0
    for bracket in re.findall(r"[][(){}]", code):
        depth = depth + 1 if bracket in "([{" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


def _blank_quoted(found: re.Match[str]) -> str:
    if found.lastgroup not in ("quoted", "raw"):
        return found[0]
    return found[0][0] + re.sub(r"[^\n]", " ", found[0][1:-1]) + found[0][-1]


# --- device or host -----------------------------------------------------------------------------


class DeviceCode:
    """Says whether an offset lies in device code: by the innermost function of the tree, or, where
    the tree has an error there or no function, by the innermost function that braces show."""

    def __init__(self, code: str, directives: list[re.Match[str]], syntax: Syntax) -> None:
        self._device_words, self._host_words = _qualifiers(directives)
        spans: list[tuple[int, int, bool | None]] = []
        spans += [(node.start_byte, node.end_byte, None) for node in syntax.errors]
        for node in syntax.functions:
            body, name = node.child_by_field_name("body"), node.child_by_field_name("declarator")
            if body is not None:
                header = code[node.start_byte : (name or body).start_byte]
                spans.append((body.start_byte, body.end_byte, self._is_device(header)))
        self._spans = sorted(spans, key=lambda span: (span[0], -span[1]))
        self._blocks = list(self._read_braces(code))

    def __contains__(self, offset: int) -> bool:
        at = bisect.bisect_right(self._spans, offset, key=lambda span: span[0])
        while at > 0 and self._spans[at - 1][1] <= offset:
            at -= 1
        if at > 0 and (by_tree := self._spans[at - 1][2]) is not None:
            return by_tree
        at = bisect.bisect_right(self._blocks, offset, key=lambda block: block[0])
        return at > 0 and self._blocks[at - 1][1]

    def _is_device(self, header: str) -> bool:
        """Words in parentheses (a macro's arguments) and behind conditions do not count."""
        words = set(re.findall(r"\w+", _outside_parentheses(header)))
        plain = not re.search("[#;{}]", header)
        return plain and bool(words & self._device_words) and not words & self._host_words

    def _read_braces(self, code: str) -> Iterator[tuple[int, bool]]:
        """Where blocks begin and end, and whether what follows is device code."""
        states: list[bool | None] = [None]  # of the enclosing blocks; None is outside functions
        begin = depth = 0
        for found in _BRACES.finditer(code):
            mark = found[0]
            if mark in "()":
                depth = max(0, depth + (1 if mark == "(" else -1))
                continue
            if mark == "{":
                header = code[begin : found.start()]
                inner = _block_state(header, self._is_device(header), states[-1])
                states.append(states[-1] if depth else inner)
            elif mark == "}" and len(states) > 1:
                states.pop()
            if mark != ";" or depth == 0:
                begin, depth = found.end(), 0
                yield begin, bool(states[-1])


def _block_state(header: str, device: bool, outer: bool | None) -> bool | None:
    """Whether the block after `header` is device code; None if it is not in a function."""
    words = re.findall(r"\w+", _outside_parentheses(header))
    if not words or words[0] in ("struct", "class", "union", "namespace"):
        return None if words else outer
    if "(" not in header and words[0] in ("extern", "template"):
        return None
    if "(" not in header or "[" in header or len(words) < 2 or words[0] in _STATEMENTS:
        return outer  # a statement, a lambda or an initializer
    return device and outer is not False


def _outside_parentheses(text: str) -> str:
    kept, depth = [], 0
    for piece in re.split(r"([()])", text):
        depth = max(0, depth + (piece == "(") - (piece == ")"))
        if depth == 0:
            kept.append(piece)
    return " ".join(kept)


def _qualifiers(directives: list[re.Match[str]]) -> tuple[set[str], set[str]]:
    """The words that make a function device code, and those that make it host code: CUDA's own,
    and macros without parameters that always stand for them."""
    bodies: dict[str, list[set[str]]] = {}
    for found in directives:
        if found[2] in ("define", "undef") and (macro := re.match(r"(\w+)(\(?)(.*)", found[3])):
            words = re.findall(r"\w+", macro[3]) if found[2] == "define" and not macro[2] else []
            bodies.setdefault(macro[1], []).append(set(words))
    device, host = {"__device__", "__global__"}, {"__host__"}
    for _ in range(4):  # macros made of macros
        device |= {name for name, each in bodies.items() if all(body & device for body in each)}
        host |= {name for name, each in bodies.items() if any(body & host for body in each)}
    return device, host
