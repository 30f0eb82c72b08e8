"""Finds where a kernel reads the memory behind a pointer, and whether it may write to it."""

from collections.abc import Iterator

from tree_sitter import Node

from kernelblaster.policies.rewrites.elementwise import subscripts
from kernelblaster.tasks.cuda_source import Function, operator, text, walk


def is_written(kernel: Function, pointer: str) -> bool:
    """True if the kernel may write through `pointer`: if it does anything with the pointer but read an
    element, for example assigns to an element or passes the pointer to a function."""
    read = {node.id for node in reads(kernel, pointer)}
    for name in walk(kernel.body, "identifier"):
        above = name.parent
        if text(name) == pointer and (above is None or above.id not in read):
            return True
    return False


def reads(kernel: Function, pointer: str) -> Iterator[Node]:
    """Yields the syntax nodes of the accesses `pointer[...]` in the kernel that only read the element. Left
    out are accesses that are assigned to (by `=` or another operator), whose address is taken (`&`), or to
    which `++`, `--` or a member access is applied."""
    for access in subscripts(kernel.body, pointer):
        above = access.parent
        if above is None or above.type in ("pointer_expression", "update_expression", "field_expression"):
            continue
        left = above.child_by_field_name("left")
        if above.type == "assignment_expression" and left is not None and left.id == access.id:
            continue
        yield access


def stores(kernel: Function, pointer: str) -> Iterator[tuple[Node, Node, Node]]:
    """Yields (statement, access, value) for every statement `pointer[...] = value;` in the kernel: the syntax
    nodes of the whole statement, of `pointer[...]` and of the value."""
    for access in subscripts(kernel.body, pointer):
        above = access.parent
        if above is None or above.type != "assignment_expression" or operator(above) != "=":
            continue
        left, value = above.child_by_field_name("left"), above.child_by_field_name("right")
        statement = above.parent
        if left is None or left.id != access.id or value is None or statement is None:
            continue
        if statement.type == "expression_statement":
            yield statement, access, value
