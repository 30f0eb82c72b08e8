"""Finds the constants in a CUDA source that determine a launch's grid and block, so that techniques can
change them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from kernelblaster.tasks.cuda_source import (
    CudaSource,
    Edit,
    LaunchSyntax,
    bare,
    declared_name,
    dimensions,
    text,
    walk,
)

WHOLE = re.compile(r"\d+")


@dataclass(frozen=True)
class Constant:
    """A whole number in a CUDA source. `value` is the number, and `node` the syntax node of its literal.
    `name` is the name that the source gives it, None if it is only written out. `shared`: the name is defined
    outside of functions, so kernels may use it too."""

    value: int
    node: Node
    name: str | None = None
    shared: bool = False


def constants(source: CudaSource) -> list[Constant]:
    """Returns the whole numbers that a source names outside of functions, by `#define NAME 16`, `constexpr
    int NAME = 16` and the like."""
    found = []
    for node in walk(source.root, "preproc_def"):
        value = node.child_by_field_name("value")
        if value is not None and WHOLE.fullmatch(text(value).strip()):
            name = text(node.child_by_field_name("name"))
            found.append(Constant(int(text(value)), value, name, shared=True))
    bodies = [(f.body.start_byte, f.body.end_byte) for f in source.functions]
    for constant in _initialized(source.root):
        at = constant.node.start_byte
        if not any(begin <= at < end for begin, end in bodies):
            found.append(Constant(constant.value, constant.node, constant.name, shared=True))
    return found


def block_of(source: CudaSource, launch: LaunchSyntax) -> list[Constant] | None:
    """Returns the dimensions of a launch's block, x first, each as a constant of the source (with the place
    where its value is defined). None if one of them is not constant."""
    found = [_resolved(source, launch, part) for part in dimensions(launch, launch.block)]
    return None if None in found else [constant for constant in found if constant is not None]


def numbers(root: Node, changes: dict[int, int]) -> Iterator[Edit]:
    """Yields edits (begin byte, end byte, new text) of the source that put new numbers in place of
    whole-number literals (decimal digits alone, such as `256`) below the syntax node `root`. `changes` maps
    each old number to the new one; numbers that are no key of it stay."""
    for node in walk(root, "number_literal"):
        if WHOLE.fullmatch(text(node)) and int(text(node)) in changes:
            yield node.start_byte, node.end_byte, str(changes[int(text(node))])


def _resolved(source: CudaSource, launch: LaunchSyntax, node: Node) -> Constant | None:
    """The constant that the expression `node`, a dimension of a launch, is: a literal, a local variable of
    the launching function or a global constant; None if it is none of them."""
    node = bare(node)
    if node.type == "number_literal" and WHOLE.fullmatch(text(node)):
        return Constant(int(text(node)), node)
    for constant in (*_initialized(launch.caller.body), *constants(source)):
        if constant.name == text(node):
            return constant
    return None


def _initialized(root: Node) -> Iterator[Constant]:
    """The variables declared below the syntax node `root` that are initialized to a whole number, as
    constants."""
    for node in walk(root, "init_declarator"):
        value = node.child_by_field_name("value")
        if value is not None and WHOLE.fullmatch(text(value)):
            yield Constant(int(text(value)), value, declared_name(node.child_by_field_name("declarator")))
