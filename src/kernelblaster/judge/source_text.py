"""Reads a candidate's CUDA source as the preprocessor does, and says where it is certainly host code. Used by
`screen_source`.

Continued lines are joined and comments removed before anything else reads the text. Text that compilers might
read in two ways raises `UnreadableSource`. A syntax tree gives the names that the file introduces and the
functions that run on the host; where the tree has errors, nothing counts as host code.

Not covered: macro expansion. `screen_host` reads the compiler's own result.
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
_NAMES = {"identifier", "field_identifier", "type_identifier"}
_TYPES = {"struct_specifier", "class_specifier", "union_specifier", "alias_declaration"}
_PARAMETERS = {  # of templates, and other nodes whose only names are those that they introduce
    "type_parameter_declaration", "optional_type_parameter_declaration",
    "variadic_type_parameter_declaration", "structured_binding_declarator",
    "variadic_declarator", "reference_declarator",
}  # fmt: skip
_WORD = re.compile(r"\w+", re.A)


@dataclass(frozen=True)
class SourceText:
    """Views of one CUDA source. In each view, what is left out is replaced by blanks, so offsets and line
    numbers are the same in all of them. `kept` is without comments, `code` also without the contents of
    strings, `plain` also without preprocessor directives. `directives` are matches in `code` with the groups
    (mark, name, rest). `syntax` has the names and functions of the syntax tree, `host` the parts that are
    host code."""

    kept: str
    code: str
    plain: str
    directives: list[re.Match[str]]
    syntax: "Syntax"
    host: "HostCode"

    def line(self, offset: int) -> int:
        """The 1-based line of a character offset."""
        return self.kept.count("\n", 0, offset) + 1


class UnreadableSource(Exception):
    """Raised if a source contains text that compilers might read in two ways; such a source is rejected.
    `what` describes that text in words; it lies at the character `offset` of the source's `text`. The
    attribute `line` is its line, from 1."""

    def __init__(self, text: str, offset: int, what: str) -> None:
        self.what = what
        self.line = text.count("\n", 0, offset) + 1
        super().__init__(f"line {self.line}: {what}")


def read_source(source: str) -> SourceText:
    """All views of a CUDA source, parsed. Raises `UnreadableSource` for text that compilers might read in two
    ways. Check the length first: the time grows with it."""
    source = source.replace("\r\n", "\n")
    if match := _DECEPTIVE.search(source):
        raise UnreadableSource(source, match.start(), "an invisible or control character")
    kept = _without_comments(*_join_lines(source))
    code = _LEXEME.sub(_blank_quoted, kept)
    if match := re.search(r"[^\x00-\x7f]|\$", code):
        raise UnreadableSource(kept, match.start(), f"{match[0]!r} outside comments and strings")
    directives = list(_DIRECTIVE.finditer(code))
    plain = _DIRECTIVE.sub(lambda match: " " * len(match[0]), code)
    if _nesting(code) > DEEPEST_NESTING:
        raise UnreadableSource(kept, 0, f"brackets nested more than {DEEPEST_NESTING} deep")
    # One byte a character, so that the tree's offsets are ours.
    tree = Parser(_LANGUAGE).parse(kept.encode("ascii", "replace"))
    syntax = Syntax(tree.root_node)
    return SourceText(kept, code, plain, directives, syntax, HostCode(plain, directives, syntax))


class Syntax:
    """What screening needs of a CUDA source's syntax tree, collected from the node `root` and below. `errors`
    are the nodes that could not be parsed, `functions` the function definitions. `defined` are the names of
    functions with a body and variables with a value, `introduced` all names that some declaration or macro of
    the file gives. All are collected in one walk, since queries take long on deep trees."""

    def __init__(self, root: Node) -> None:
        self.errors: list[Node] = []
        self.functions: list[Node] = []
        self.defined: set[str] = set()  # functions with a body, variables with a value
        self.introduced: set[str] = set()  # every name that a declaration or a macro of the file gives
        for node in _walk(root):
            if node.type == "ERROR":
                self.errors.append(node)
            elif node.type == "function_definition":
                self.functions.append(node)
            if node.type in ("function_definition", "init_declarator"):
                self.defined.add(_declared_name(node))
            self.introduced.update(_introduced(node))
        self.introduced |= self.defined


def _introduced(node: Node) -> Iterator[str]:
    """The names that a syntax node declares, if it is a declaration: of functions, variables, parameters,
    types and macros."""
    named: list[Node] = []
    if node.type in _PARAMETERS:
        named = [child for child in node.named_children if child.type in _NAMES]
    elif node.type in _TYPES or node.type in ("preproc_def", "preproc_function_def"):
        named = node.children_by_field_name("name")
    elif node.type == "lambda_capture_initializer":
        named = node.children_by_field_name("left")
    for declarator in node.children_by_field_name("declarator"):
        if declarator.type == "qualified_identifier":
            named += declarator.children_by_field_name("name")
        elif declarator.type in _NAMES:
            named.append(declarator)
    return ((name.text or b"").decode() for name in named)


def _walk(root: Node) -> Iterator[Node]:
    """Yields all named nodes of a syntax tree, outer ones first."""
    cursor = root.walk()
    while True:
        if cursor.node is not None and cursor.node.is_named:
            yield cursor.node
        if not cursor.goto_first_child():
            while not cursor.goto_next_sibling():
                if not cursor.goto_parent():
                    return


def _declared_name(node: Node) -> str:
    """The identifier that a declaration or definition introduces, found inside nested declarators (pointer
    to, function of); empty if there is none."""
    inner: Node | None = node
    for _ in range(20):
        if inner is None or inner.type == "identifier":
            break
        inner = inner.child_by_field_name("declarator")
    return (inner.text or b"").decode() if inner is not None else ""


def _join_lines(source: str) -> tuple[str, list[int]]:
    """The source with backslash-newlines deleted, and the offsets where they were. The deleted newlines are
    added at the end of the joined line, which keeps the numbers of later lines."""
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
    """The CUDA source `joined` (continued lines already joined) with each comment replaced by one space.
    Newlines inside a comment move to the end of its line, since a preprocessor directive ends at a newline
    outside of comments. `joints` are the offsets where backslash-newlines were deleted. Raises
    UnreadableSource for a raw string that contains such an offset or has no end."""
    owed = 0

    def replace(lexeme: re.Match[str]) -> str:
        nonlocal owed
        start, end = lexeme.span()
        match lexeme.lastgroup:
            case "comment":
                owed += lexeme[0].count("\n")
                return " "
            case "newline":
                lines, owed = owed + 1, 0
                return "\n" * lines
            case "raw":
                line = joined[joined.rfind("\n", 0, start) + 1 : start].lstrip()
                multiline = "\n" in lexeme[0] and line.startswith(("#", "%:"))
                if multiline or bisect.bisect_left(joints, start) < bisect.bisect_left(joints, end):
                    raise UnreadableSource(joined, start, "a raw string across joined lines")
            case "unclear":
                raise UnreadableSource(joined, start, "a raw string without an end")
        return lexeme[0]

    return _LEXEME.sub(replace, joined)


def _nesting(code: str) -> int:
    """How deep brackets are nested at most in `code`, a source without comments and strings, whether they
    match or not."""
    depth = deepest = 0
    for bracket in re.findall(r"[][(){}]", code):
        depth = depth + 1 if bracket in "([{" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


def _blank_quoted(match: re.Match[str]) -> str:
    """For a regular expression's match of one lexeme: a string or character literal with blanks for its
    content; any other lexeme unchanged."""
    if match.lastgroup not in ("quoted", "raw"):
        return match[0]
    return match[0][0] + re.sub(r"[^\n]", " ", match[0][1:-1]) + match[0][-1]


# --- host code ----------------------------------------------------------------------------------


class HostCode:
    """The parts of a source that are certainly host code. `offset in host_code` is True if the character at
    this offset lies in a function that is neither `__device__` nor `__global__` (the innermost function
    counts), and the syntax tree has no error there. `plain`, `directives` and `syntax` are those of the
    source's `SourceText`."""

    def __init__(self, plain: str, directives: list[re.Match[str]], syntax: Syntax) -> None:
        device = _device_words(directives)
        ends = [found.start() for found in re.finditer("[;{}]", plain)]
        spans = [(node.start_byte, node.end_byte, False) for node in syntax.errors]
        for node in syntax.functions:
            body, name = node.child_by_field_name("body"), node.child_by_field_name("declarator")
            if body is not None:
                # Not from where the node begins: the grammar cuts off what it does not know before it.
                end = (name or body).start_byte
                before = bisect.bisect_left(ends, end)
                header = plain[ends[before - 1] + 1 if before else 0 : end]
                spans.append((body.start_byte, body.end_byte, device.isdisjoint(_WORD.findall(header))))
        self._spans = sorted(spans, key=lambda span: (span[0], -span[1]))

    def __contains__(self, offset: int) -> bool:
        at = bisect.bisect_right(self._spans, offset, key=lambda span: span[0])
        while at > 0 and self._spans[at - 1][1] <= offset:
            at -= 1
        return at > 0 and self._spans[at - 1][2]


def _device_words(directives: list[re.Match[str]]) -> set[str]:
    """Words that may mark a function as device code: __device__, __global__, and macros (among the
    preprocessor `directives`) whose text contains such a word."""
    device, bodies = {"__device__", "__global__"}, []
    for match in directives:
        if match[2] == "define" and (words := _WORD.findall(match[3])):
            bodies.append((words[0], set(words[1:])))
    for _ in range(4):  # macros made of macros
        device |= {name for name, body in bodies if body & device}
    return device
