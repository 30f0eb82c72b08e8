"""Recognizes elementwise kernels in a CUDA source and splits them into their parts. In an elementwise kernel
each thread handles one index below a bound, independently of the others. It has this form:

    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) ...                                   or: if (i >= n) return; ...
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from kernelblaster.policies.rewrites.own_source import OwnSource
from kernelblaster.tasks.cuda_source import (
    Edit,
    Function,
    bare,
    declared_name,
    dimensions,
    operator,
    replaced,
    sides,
    text,
    walk,
)

TOGETHER = re.compile(r"__shared__|__sync|__shfl|__ballot|cooperative_groups|\breturn\b|threadIdx|blockIdx")
ADDED = {"place", "stride", "first", "bound", "each"}  # names that rewrites give


@dataclass(frozen=True)
class Elementwise:
    """The parts of an elementwise kernel, as texts of the source. `variable` holds the thread's global index,
    `kind` is its type, and the expression `index` computes it. `bound` is the first index that is too large.
    `work` are the statements that process one element, and `nodes` their syntax nodes."""

    variable: str
    kind: str
    index: str
    bound: str
    work: str
    nodes: tuple[Node, ...]

    def written(self, work: str, indent: int) -> str:
        """Returns `work` (statements on one or more lines) as text that can be inserted into a kernel: all
        lines but the first are indented by `indent` spaces."""
        return textwrap.indent(work, " " * indent).lstrip()


def elementwise(source: OwnSource, kernel: Function) -> Elementwise | None:
    """Returns what `kernel`, a kernel of `source`, consists of if it is elementwise: the index of the thread,
    the bound, and the statements for one element. Elementwise means one thread for each index below a bound,
    and no cooperation between threads. None if it is not, or if it uses one of the names that rewrites
    introduce (ADDED)."""
    statements = [node for node in kernel.body.named_children if node.type != "comment"]
    if len(statements) < 2 or statements[1].type != "if_statement":
        return None
    first, guard, rest = statements[0].child_by_field_name("declarator"), statements[1], statements[2:]
    value = first.child_by_field_name("value") if first is not None else None
    if value is None or not _is_global_index(value) or guard.child_by_field_name("alternative") is not None:
        return None
    variable = declared_name(first)
    found = _guarded(guard, variable, rest)
    if found is None:
        return None
    bound, nodes = found
    work = _lines(source, nodes)
    names = set(re.findall(r"\w+", text(kernel.node)))
    if TOGETHER.search(work) or names & ADDED or not _sound_bound(bound, variable):
        return None
    kind = " ".join(text(statements[0].child_by_field_name("type")).split())
    return Elementwise(variable, kind, text(value), bound, work, tuple(nodes))


def _guarded(guard: Node, variable: str, rest: list[Node]) -> tuple[str, list[Node]] | None:
    """The bound of the index `variable`, and the statements for indices below it: those inside `if (i < n)`,
    or `rest`, those after `if (i >= n) return;`. None if the statement `guard` is neither."""
    found, then = _bound(guard, variable), guard.child_by_field_name("consequence")
    if found is None or then is None:
        return None
    inside, bound = found
    if inside and not rest:
        whole = then.type == "compound_statement"
        return bound, (list(then.named_children) if whole else [then])
    returns = re.fullmatch(r"\{?\s*return\s*;\s*\}?", text(then)) is not None
    return (bound, rest) if not inside and returns and rest else None


def _lines(source: OwnSource, nodes: list[Node]) -> str:
    """The source's text of the consecutive statements `nodes`, without their common indent; empty if there
    are none."""
    if not nodes:
        return ""
    begin = source.tree.bytes.rfind(b"\n", 0, nodes[0].start_byte) + 1
    lead = source.tree.bytes[begin : nodes[0].start_byte]
    whole = source.tree.bytes[nodes[0].start_byte : nodes[-1].end_byte].decode()
    return textwrap.dedent(lead.decode() + whole if not lead.strip() else whole)


def fewer_blocks(source: OwnSource, kernel: Function, times: int) -> list[Edit] | None:
    """Returns edits (begin byte, end byte, new text) of `source` that divide the number of blocks by `times`,
    rounded up, at every launch of `kernel`. None if the kernel is never launched, or if the grid or block of
    a launch has more than one dimension."""
    edits = []
    for launch in source.tree.launches_of(kernel.name):
        grid, block = dimensions(launch, launch.grid), dimensions(launch, launch.block)
        if len(grid) != 1 or len(block) != 1:
            return None
        edits.append(replaced(grid[0], f"({text(grid[0])} + {times - 1}) / {times}"))
    return edits or None


def _is_global_index(node: Node) -> bool:
    """Whether an expression is `blockIdx.x * blockDim.x + threadIdx.x`, in any order and with casts; any
    single name may stand for `blockDim.x`."""
    node = bare(node)
    pair = sides(node)
    if node.type != "binary_expression" or operator(node) != "+" or pair is None:
        return False
    product, rest = sorted((bare(side) for side in pair), key=lambda side: side.type != "binary_expression")
    factors = sides(product)
    if text(rest) != "threadIdx.x" or factors is None or operator(product) != "*":
        return False
    names = [text(bare(factor)) for factor in factors]
    return "blockIdx.x" in names and any(name == "blockDim.x" or re.fullmatch(r"\w+", name) for name in names)


def _bound(guard: Node, variable: str) -> tuple[bool, str] | None:
    """What the condition of the `if` statement `guard` says, if it compares `variable` with a bound: (True if
    it holds for indices below the bound, False if for the others; the bound's text). None for other
    conditions."""
    condition = guard.child_by_field_name("condition")
    inner = next(iter(condition.named_children), None) if condition is not None else None
    pair = sides(inner) if inner is not None else None
    if inner is None or pair is None:
        return None
    kind, left, right = operator(inner), text(bare(pair[0])), text(bare(pair[1]))
    if left == variable and kind in ("<", ">="):
        return kind == "<", right
    if right == variable and kind in (">", "<="):
        return kind == ">", left
    return None


def _sound_bound(bound: str, variable: str) -> bool:
    """Whether the text `bound` is made of names, numbers and products only, without the index `variable`
    itself, so that it can be evaluated elsewhere in the kernel."""
    return re.fullmatch(r"[\w\s*()]+", bound) is not None and variable not in re.findall(r"\w+", bound)


def subscripts(root: Node, pointer: str) -> Iterator[Node]:
    """Yields the syntax nodes of all expressions `pointer[...]` below the syntax node `root`; `pointer` is
    the name before the bracket."""
    for access in walk(root, "subscript_expression"):
        if text(access.child_by_field_name("argument")) == pointer:
            yield access
