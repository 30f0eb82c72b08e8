"""Digests of CUDA sources as programs: of what they do, not of how they are laid out.

Two sources have the same digest if they differ in nothing but white space, comments, line breaks, braces
around single statements, parentheses that change nothing, device functions and their order, and sizes that a
kernel is given but does not use. What is passed to kernels is left out, for that reason; a compiler sees to
that.
"""

import hashlib
import re
from functools import cache

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser

PARSER = Parser(Language(tree_sitter_cuda.language()))
ATTRIBUTES = re.compile(
    rb"__(?:cluster_dims|launch_bounds)__\s*\([^()]*\)|\b__restrict__\b|\b__forceinline__\b"
    rb"|\balignas\(\d+\)|__align__\(\d+\)"
)
KERNEL, LAUNCH = "__global__", "launch_gpu_implementation"
LEFT_OUT = {"comment", ";", ",", "(", ")", "{", "}"}


def program_digest(source: str) -> str:
    """The digest of a whole source."""
    parts = sorted(_definition(part) for part in _top_level(source))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _top_level(source: str) -> list[str]:
    """The kernels of a source, which have no empty lines within them, and its launch function."""
    return [part for part in source.split("\n\n") if KERNEL in part or LAUNCH in part]


@cache
def _definition(text: str) -> str:
    text = _without_unused(text) if KERNEL in text else _without_sizes(text)
    text = re.sub(r"\b1 \* | / 1\b", "", text)
    raw = text.encode()
    attributes = b" ".join(found.group() for found in ATTRIBUTES.finditer(raw)).decode()
    plain = ATTRIBUTES.sub(lambda found: b" " * len(found.group()), raw)
    plain = plain.replace(b"<<<", b" .launch(").replace(b">>>(", b")(")
    return f"{attributes} {_form(PARSER.parse(plain).root_node, plain)}"


def _without_unused(kernel: str) -> str:
    """A kernel without the sizes that it does not use."""
    for name in re.findall(r"const int64_t (\w+) = SIZED \?", kernel):
        if len(re.findall(rf"\b{name}\b", kernel)) == 1:
            kernel = re.sub(rf"\n *const int64_t {name} = SIZED [^\n]*", "", kernel)
    head, _, body = kernel.partition(") {\n")
    for name in re.findall(r"int64_t (\w+)", head):
        if not re.search(rf"\b{name}\b", body):
            head = re.sub(rf",\s*int64_t {name}\b", "", head)
    return f"{head}) {{\n{body}"


def _without_sizes(host: str) -> str:
    """The launch function without what it passes to kernels, and without comparisons of sizes with those
    that are constants in a kernel."""
    host = re.sub(r">>>\([^;]*\);", ">>>();", host)
    return re.sub(r"\b\w+ == \d{1,}(?: && )?(?=.*\) \{)", _kept, host)


def _kept(found: re.Match[str]) -> str:
    """Tests of divisibility (% 4 == 0) stay: those are not of a name."""
    return found.group() if found.group().startswith(("4 ==", "2 ==", "8 ==")) else ""


def _form(node: Node, raw: bytes) -> str:
    """A node and its children, without what does not matter."""
    if node.type == "parenthesized_expression" and len(node.named_children) == 1:
        return _form(node.named_children[0], raw)
    if node.type == "compound_statement" and len(node.named_children) == 1:
        return _form(node.named_children[0], raw)
    if node.type == "declaration":
        return _declaration(node, raw)
    if not node.children:
        return raw[node.start_byte : node.end_byte].decode()
    inside = [_form(child, raw) for child in node.children if child.type not in LEFT_OUT]
    return inside[0] if len(inside) == 1 else f"({' '.join(inside)})"


def _declaration(node: Node, raw: bytes) -> str:
    """Several names of one type are as many declarations."""
    names = node.children_by_field_name("declarator")
    head = [_form(c, raw) for c in node.children if c not in names and c.type not in LEFT_OUT]
    return " ".join(f"({' '.join(head)} {_form(name, raw)})" for name in names)
