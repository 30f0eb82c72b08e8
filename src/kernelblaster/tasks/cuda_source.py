"""Parses a CUDA source: its functions, their parameters, its kernel launches, and edits of its text.

Offsets are bytes of the UTF-8 text. Macros are not expanded.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser

_LANGUAGE = Language(tree_sitter_cuda.language())
# The grammar does not know these: they are replaced by spaces, which keeps every offset.
_ATTRIBUTES = re.compile(
    rb"__(cluster_dims|launch_bounds|maxnreg)__\s*\([^()]*\)|__grid_constant__|\b__restrict(__)?\b"
    rb"|\b__forceinline__\b|\b__noinline__\b"
)
Edit = tuple[int, int, str]  # begin, end, new text


@dataclass(frozen=True)
class Parameter:
    """A parameter called `name` of a function in a CUDA source. `pointer`: it is a pointer or an array.
    `kind` is its type without `const`, and without the `*` if it is one pointer: "float" for `const float*
    x`, "float*" for `float** x`. `const`: its type has that qualifier. `node` is its declaration in the parse
    tree."""

    name: str
    kind: str
    pointer: bool
    const: bool
    node: Node


@dataclass(frozen=True)
class Function:
    """The definition of a function in a CUDA source: its `name` and `parameters`. `kernel`: it is
    `__global__`; `device`: it is `__global__` or `__device__`. `node` is the whole definition in the parse
    tree, `body` the part in braces."""

    name: str
    parameters: tuple[Parameter, ...]
    node: Node
    body: Node
    kernel: bool
    device: bool

    @property
    def pointers(self) -> list[Parameter]:
        return [parameter for parameter in self.parameters if parameter.pointer]


@dataclass(frozen=True)
class LaunchSyntax:
    """One kernel launch as it is written, `kernel<<<configuration>>>(arguments)`, in the body of the function
    `caller`. `kernel` is the kernel's name without template arguments and namespace. `configuration` has the
    expressions for the grid, the block and, if given, the bytes of shared memory and the stream. `node` is
    the whole expression."""

    kernel: str
    configuration: tuple[Node, ...]
    arguments: tuple[Node, ...]
    node: Node
    caller: Function

    @property
    def grid(self) -> Node:
        return self.configuration[0]

    @property
    def block(self) -> Node:
        return self.configuration[1]


class CudaSource:
    """A parsed CUDA source: its `text`, the same text as UTF-8 in `bytes`, the `root` of its parse tree, its
    `functions` and its kernel `launches`, both in source order. Functions and launches that cannot be parsed
    are left out."""

    def __init__(self, source: str) -> None:
        self.text = source
        self.bytes = source.encode()
        self.root = parse(self.bytes)
        self.functions = [f for node in walk(self.root, "function_definition") if (f := _function(node))]
        self.launches = [found for function in self.functions for found in _launches(function)]

    def function(self, name: str) -> Function | None:
        """The first function of this name that the source defines; None if it defines none."""
        return next((function for function in self.functions if function.name == name), None)

    @property
    def constants(self) -> dict[str, int]:
        """Whole numbers that the source gives a name: by `#define NAME 256`, or as a `const` or `constexpr`
        variable outside of functions."""
        found = re.findall(
            r"^\s*(?:#\s*define\s+(\w+)\s+|(?:static\s+)?const(?:expr)?\s+(?:unsigned|int|size_t)\s+(\w+)\s*=\s*)"
            r"\(?(\d+)u?\)?\s*(?:;|$|//)",
            self.text,
            re.MULTILINE,
        )
        return {macro or variable: int(value) for macro, variable, value in found}

    @property
    def kernels(self) -> list[Function]:
        return [function for function in self.functions if function.kernel]

    def launches_of(self, kernel: str) -> list[LaunchSyntax]:
        return [launch for launch in self.launches if launch.kernel == kernel]

    def original(self, node: Node) -> str:
        """Returns the text of a node of the parse tree as the user wrote it, with attributes such as
        `__restrict__`. (The function `text` of this module replaces these by blanks.)"""
        return self.bytes[node.start_byte : node.end_byte].decode()

    def edited(self, edits: Sequence[Edit]) -> str:
        """Returns the source's text after `edits`. Each is (begin, end, new text): the bytes from `begin` up
        to `end` are replaced. Edits may come in any order but must not overlap."""
        pieces, at = [], 0
        for begin, end, new in sorted(edits):
            pieces += [self.bytes[at:begin], new.encode()]
            at = end
        return b"".join([*pieces, self.bytes[at:]]).decode()


def parse(source: bytes) -> Node:
    """The root of the source's parse tree (tree-sitter). Attributes unknown to the grammar are replaced by
    spaces first, so that offsets remain those of the source."""
    blank = _ATTRIBUTES.sub(lambda found: b" " * len(found[0]), source)
    return Parser(_LANGUAGE).parse(blank).root_node


def text(node: Node | None) -> str:
    """The source text of a node of the syntax tree, where attributes such as `__restrict__` are blanks; ""
    for None."""
    return (node.text or b"").decode() if node is not None else ""


def walk(root: Node, *types: str) -> Iterator[Node]:
    """Yields the nodes of the syntax tree below `root` (itself included) whose type is among `types`, in
    source order, outer ones first; all named nodes if no types are given."""
    stack = [root]
    while stack:
        node = stack.pop()
        if (node.type in types) if types else node.is_named:
            yield node
        stack.extend(reversed(node.children))


def replaced(node: Node, new: str) -> Edit:
    """Returns an edit (begin, end, new text) for `CudaSource.edited` that puts the text `new` in place of a
    node of the syntax tree."""
    return node.start_byte, node.end_byte, new


def inserted(at: int, new: str) -> Edit:
    """Returns an edit (begin, end, new text) for `CudaSource.edited` that inserts the text `new` at the byte
    offset `at`."""
    return at, at, new


def operator(node: Node) -> str:
    """Returns the operator of `node`, a unary or binary expression in the syntax tree, such as "<="; "" if it
    has none."""
    return text(node.child_by_field_name("operator"))


def sides(node: Node) -> tuple[Node, Node] | None:
    """Returns (left operand, right operand) if `node` is a binary expression, (target, value) if it is an
    assignment; None for any other node of the syntax tree."""
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    return (left, right) if left is not None and right is not None else None


def bare(node: Node) -> Node:
    """Returns the expression `node` without the parentheses and casts around it: `x` for `(float)(x)`."""
    while True:
        inner: Node | None = None
        if node.type == "parenthesized_expression":
            inner = node.named_children[0] if node.named_children else None
        elif node.type == "cast_expression":
            inner = node.child_by_field_name("value")
        elif node.type == "call_expression" and _is_cast(text(node.child_by_field_name("function"))):
            given = node.child_by_field_name("arguments")
            inner = given.named_children[0] if given is not None and given.named_child_count == 1 else None
        if inner is None:
            return node
        node = inner


def _is_cast(name: str) -> bool:
    """Whether calling `name` only converts a value, as in `int(x)` or `reinterpret_cast<int*>(x)`."""
    return bool(re.fullmatch(r"(unsigned|int|long|size_t|u?int\d+_t)|(static|reinterpret)_cast<.*>", name))


def dimensions(launch: LaunchSyntax, node: Node) -> list[Node]:
    """Returns the expressions for the extents x, y and z of `node`, the grid or the block of a launch. If
    `node` is a `dim3`, or a local variable of that type, they are the arguments of its constructor: [A, B]
    for `dim3 block(A, B)`. For any other expression, such as a plain number, the list has only this
    expression."""
    shape = bare(node)
    if shape.type == "identifier":
        declared = _declared_shape(launch.caller.body, text(shape))
        if declared is None:
            return [shape]
        if declared.type != "call_expression":
            return list(declared.named_children)
        shape = declared
    if shape.type == "call_expression" and text(shape.child_by_field_name("function")) == "dim3":
        given = shape.child_by_field_name("arguments")
        return list(given.named_children) if given is not None else []
    return [shape]


def _declared_shape(body: Node, name: str) -> Node | None:
    """How a function's `body` initializes the `dim3` variable `name`: a list of its dimensions, or a call;
    None if no such variable is declared. (To the grammar, `dim3 block(A, B)` declares a function with
    parameters.)"""
    for node in walk(body, "declaration"):
        if text(node.child_by_field_name("type")) != "dim3":
            continue
        for declared in node.children_by_field_name("declarator"):
            if declared_name(declared) == name:
                value = declared.child_by_field_name("value")
                return value if value is not None else declared.child_by_field_name("parameters")
    return None


def declared_name(node: Node | None) -> str:
    """Returns the name that a declarator (a node of the syntax tree) declares, without the symbols for
    pointers, references and arrays: "x" for `*x` and for `x[8]`. "" if it declares none."""
    while node is not None and node.type not in ("identifier", "field_identifier"):
        below = node.child_by_field_name("declarator")
        node = below if below is not None else next(iter(node.named_children), None)
    return text(node)


def _function(node: Node) -> Function | None:
    """Reads a function definition in the syntax tree: name, parameters, and whether it is a kernel. None if
    its declarator or body is not understood."""
    declarator, body = node.child_by_field_name("declarator"), node.child_by_field_name("body")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator")
    if declarator is None or body is None:
        return None
    given = declarator.child_by_field_name("parameters")
    listed = [n for n in given.named_children if n.type == "parameter_declaration"] if given else []
    marks = {child.type for child in node.children} | {text(child) for child in node.children}
    kernel = "__global__" in marks
    name = declared_name(declarator)
    parameters = tuple(_parameter(n) for n in listed)
    return Function(name, parameters, node, body, kernel, kernel or "__device__" in marks)


def _parameter(node: Node) -> Parameter:
    declarator = node.child_by_field_name("declarator")
    pointer = declarator is not None and declarator.type in ("pointer_declarator", "array_declarator")
    const = any(child.type == "type_qualifier" and text(child) == "const" for child in node.children)
    kind = " ".join(text(node.child_by_field_name("type")).split())
    if pointer and declarator is not None:
        kind += "*" * (text(declarator).count("*") - (declarator.type == "pointer_declarator"))
    return Parameter(declared_name(declarator), kind, pointer, const, node)


def _launches(function: Function) -> Iterator[LaunchSyntax]:
    """Yields the kernel launches `name<<<...>>>(...)` that a function makes, in source order."""
    for call in walk(function.body, "call_expression"):
        shape = next((child for child in call.children if child.type == "kernel_call_syntax"), None)
        given = next((child for child in call.children if child.type == "argument_list"), None)
        if shape is None or given is None or shape.named_child_count < 2:
            continue
        name = re.split(r"<", text(call.children[0]))[0].split("::")[-1].strip()
        yield LaunchSyntax(name, tuple(shape.named_children), tuple(given.named_children), call, function)
