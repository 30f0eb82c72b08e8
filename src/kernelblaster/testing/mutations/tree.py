"""A kernel's source as a parse tree (tree-sitter), for the mutation operators, which edit it.

Comments and strings are nodes of their own, so an operator that asks for other nodes never touches them.
Which expressions are floating-point is guessed by name: if a name is declared anywhere in the file as a
floating-point number, or as a pointer to such numbers, it counts as such in the whole file. After a wrong
guess a mutant may not compile, and is of no use.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tree_sitter import Node

from kernelblaster.tasks.cuda_source import declared_name, operator, parse, sides, text

LAUNCH = "launch_gpu_implementation"
PLANT = "PLANTED_ERROR"  # code that tests/candidates switch on to be wrong: not compiled here
_FLOATING = re.compile(r"\b(float[1-4]?|double[1-4]?|__half2?|half2?|__nv_bfloat162?)\b")
_MATH = re.compile(
    r"(exp|exp2|log|log2|log1p|sqrt|rsqrt|tanh|erf|fma|fmax|fmin|fabs|pow)f?"
    r"|__(half|bfloat16)2float|__fdividef|__expf"
)
_FLOATING_LITERAL = re.compile(r"\d*\.\d*(e[+-]?\d+)?f?|\d+e[+-]?\d+f?")
_HANDED_ON = re.compile(r"__(ldg|ldcs|ldcg|shfl\w*)")  # as floating as what they are given


@dataclass(frozen=True)
class Mutation:
    """One mistake to make in a source. `what` says it in words; `at` is the byte offset of the place.
    `changes` are (begin, end, new text) in bytes, and do not overlap. `argument`, if not empty, says why the
    result is wrong even if no test run shows an error: a missing fence, for example, may do no harm in a
    run."""

    at: int
    what: str
    changes: tuple[tuple[int, int, str], ...]
    argument: str = ""


class Code:
    """A CUDA source, parsed, with what is known of its task: `sizes` of the primary workload and `scalars`,
    both by name. `nodes` are all named nodes of the syntax tree, without code under `#ifdef PLANTED_ERROR`;
    `functions` are those that define a function."""

    def __init__(self, source: str, sizes: Mapping[str, int], scalars: Mapping[str, float]) -> None:
        self.source = source
        self.sizes = sizes
        self.scalars = scalars
        self.nodes = tuple(_walk(parse(source.encode())))
        self.functions = [n for n in self.nodes if n.type == "function_definition"]
        self._device = [(f.start_byte, f.end_byte) for f in self.functions if _is_device(f)]
        declared = list(_floating_names(self.nodes))
        self._arrays = {name for name, many in declared if many}
        self._floats = {name for name, many in declared if not many} - self._arrays

    def line(self, at: int) -> int:
        """The line, from 1, in which the byte offset `at` of the source lies."""
        return self.source.encode()[:at].count(b"\n") + 1

    def device(self, *types: str) -> Iterator[Node]:
        """Yields the nodes of these types (names of tree-sitter's CUDA grammar) that lie in device functions,
        in source order."""
        for node in self.nodes:
            if node.type in types and any(a <= node.start_byte < b for a, b in self._device):
                yield node

    def host(self, *types: str) -> Iterator[Node]:
        """Yields the nodes of these types (names of tree-sitter's CUDA grammar) that lie outside of device
        functions, in source order."""
        device = {node.id for node in self.device(*types)}
        yield from (n for n in self.nodes if n.type in types and n.id not in device)

    def kernels(self) -> Iterator[Node]:
        """Yields the definitions of the source's `__global__` functions, as nodes of the syntax tree."""
        yield from (f for f in self.functions if "__global__" in _header(f))

    def entry(self) -> int | None:
        """Returns the byte offset after the opening brace of the launch function; None if the source does not
        define that."""
        for function in self.functions:
            body = function.child_by_field_name("body")
            if body is not None and LAUNCH in _header(function):
                return body.start_byte + 1
        return None

    def loops(self) -> "Iterator[Loop]":
        """Yields the loops of device code that count up: `for (...; i < end; i += step)`."""
        for node in self.device("for_statement"):
            loop = _loop(node)
            if loop is not None:
                yield loop

    def is_floating(self, node: Node | None) -> bool:
        """True if an expression (a node of the syntax tree) looks like a floating-point number, by the
        declarations in the file. False for a pointer to such numbers."""
        if node is None:
            return False
        kind, floating = node.type, False
        if kind == "identifier":
            floating = text(node) in self._floats
        elif kind == "number_literal":
            floating = _FLOATING_LITERAL.fullmatch(text(node)) is not None
        elif kind == "subscript_expression":
            floating = self._points(node.child_by_field_name("argument"))
        elif kind == "pointer_expression":
            floating = text(node)[0] == "*" and self._points(node.child_by_field_name("argument"))
        elif kind == "field_expression":
            owner, name = node.child_by_field_name("argument"), text(node.child_by_field_name("field"))
            floating = self.is_floating(owner) if name in ("x", "y", "z", "w") else name in self._floats
        elif kind == "call_expression":
            floating = self._gives_floating(node)
        elif kind in ("binary_expression", "parenthesized_expression", "unary_expression"):
            floating = any(self.is_floating(child) for child in node.named_children)
        return floating

    def _gives_floating(self, call: Node) -> bool:
        """Whether a call looks like it returns a floating-point number, by the function's name and, for loads
        and shuffles, its arguments."""
        name, arguments = text(call.child_by_field_name("function")), call.child_by_field_name("arguments")
        given = arguments.named_children if arguments is not None else []
        if _HANDED_ON.fullmatch(name):
            return any(self.is_floating(one) or self._points(one) for one in given)
        return name in self._floats or name == "float" or bool(_MATH.fullmatch(name))

    def _points(self, node: Node | None) -> bool:
        """Whether an expression (a node of the syntax tree) looks like a pointer to floating-point numbers,
        by the declarations in the file."""
        if node is None:
            return False
        if node.type == "identifier":
            return text(node) in self._arrays
        if node.type in ("call_expression", "cast_expression"):
            return bool(re.match(r"(reinterpret_cast<|\()(const |volatile )*(float|double)", text(node)))
        inner = ("binary_expression", "parenthesized_expression", "subscript_expression")
        return node.type in inner and any(self._points(child) for child in node.named_children)


@dataclass(frozen=True)
class Loop:
    """A counting loop `for (...; variable < bound; variable += step)`: the whole statement (`node`) and its
    parts, the syntax nodes `bound`, `update` and `body`; `step` is text, "1" for `++`."""

    node: Node
    variable: str
    bound: Node
    update: Node
    step: str
    body: Node


def replace(node: Node, new: str, what: str, argument: str = "") -> Mutation:
    """Returns the mutation that replaces a node of the syntax tree by the text `new`. `what` says in words
    which mistake that is; `argument`, if given, why it is wrong even if no test run shows an error."""
    return Mutation(node.start_byte, what, ((node.start_byte, node.end_byte, new),), argument)


def insert(at: int, new: str, what: str, argument: str = "") -> Mutation:
    """Returns the mutation that inserts the text `new` at the byte offset `at`. `what` says in words which
    mistake that is; `argument`, if given, why it is wrong even if no test run shows an error."""
    return Mutation(at, what, ((at, at, new),), argument)


def short(node: Node) -> str:
    """Returns the source text of a node on one line, cut at 60 characters, to be named in a message."""
    words = " ".join(text(node).split())
    return words if len(words) <= 60 else words[:57] + "..."


def within(node: Node, *types: str) -> bool:
    """True if a node of the syntax tree is inside of another one whose type is among `types`, in the same
    function."""
    above = node.parent
    while above is not None and above.type != "function_definition":
        if above.type in types:
            return True
        above = above.parent
    return False


def _loop(node: Node) -> Loop | None:
    """Reads a `for` statement as a loop that counts up to a bound; None if it has another form."""
    condition, update = node.child_by_field_name("condition"), node.child_by_field_name("update")
    body = node.child_by_field_name("body")
    if condition is None or update is None or body is None or operator(condition) != "<":
        return None
    pair = sides(condition)
    if update.type == "comma_expression":
        update = update.named_children[0]
    if pair is None or update.type not in ("assignment_expression", "update_expression"):
        return None
    steps = sides(update)
    if update.type == "assignment_expression" and (steps is None or operator(update) != "+="):
        return None
    step = text(steps[1]) if steps else "1"
    counted = text(steps[0]) if steps else text(update.child_by_field_name("argument"))
    if not re.search(rf"\b{re.escape(counted)}\b", text(pair[0])):
        return None
    return Loop(node, counted, pair[1], update, step, body)


def _walk(root: Node) -> Iterator[Node]:
    """All named nodes below `root`, outer ones first, without code under #ifdef PLANTED_ERROR, which is not
    compiled."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.is_named:
            yield node
        children = node.children
        if node.type == "preproc_ifdef" and text(node.child_by_field_name("name")) == PLANT:
            kept = node.child_by_field_name("alternative")
            children = [kept] if kept is not None and text(node).startswith("#ifdef") else []
        stack.extend(reversed(children))


def _header(function: Node) -> str:
    """The text of a function definition before its body: qualifiers, type, name, parameters."""
    body = function.child_by_field_name("body")
    whole = text(function)
    return whole[: body.start_byte - function.start_byte] if body is not None else whole


def _is_device(function: Node) -> bool:
    header = _header(function)
    return "__global__" in header or "__device__" in header


def _floating_names(nodes: tuple[Node, ...]) -> Iterator[tuple[str, bool]]:
    """(name, whether it is a pointer or an array) of each variable, parameter, field and function declared
    with a floating type."""
    kinds = ("declaration", "parameter_declaration", "field_declaration", "function_definition")
    for node in nodes:
        kind = node.child_by_field_name("type")
        if node.type not in kinds or kind is None or not _FLOATING.search(text(kind)):
            continue
        for declarator in node.children_by_field_name("declarator"):
            name = declared_name(declarator)
            if name:
                shape = text(declarator).split("=")[0].split("(")[0]
                yield name, "*" in shape or "[" in shape
