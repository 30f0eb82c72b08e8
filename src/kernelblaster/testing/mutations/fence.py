"""Mutations: fences, barriers and waits that are left out or made weaker."""

import re
from collections.abc import Iterator

from kernelblaster.tasks.cuda_source import text
from kernelblaster.testing.mutations.tree import Code, Mutation, replace, short, within

_CALLS = re.compile(
    r"__(syncthreads|syncwarp|threadfence\w*|pipeline_wait_prior)"
    r"|.*[.>:](sync|arrive_and_wait|barrier_wait|wait|wait_prior|consumer_wait)(<\w+>)?"
    r"|cudaGridDependencySynchronize"
)
_ASSEMBLY = re.compile(
    r"cp\.async\.(bulk\.)?wait|griddepcontrol\.wait|\bbar(rier)?\.\S*(sync|wait)|membar|fence\."
)
_WAITS = re.compile(r"mbarrier\.\w*wait")
_UNORDERED = "nothing orders the data and what announces them"
_NOT_AWAITED = "what is read was never awaited"
_ORDERING = re.compile(r"threadfence(?!_block)|membar|fence\.(acq_rel|sc)")
_AWAITING = re.compile(r"wait|cudaGridDependencySynchronize")
_WEAKER = (
    (r"\b(ld|atom|red)\.acquire\b", "acquire", "relaxed"),
    (r"\b(st|red|atom)\.release\b", "release", "relaxed"),
    (r"\b(atom|red)\.acq_rel\b", "acq_rel", "relaxed"),
)


def edits(code: Code) -> Iterator[Mutation]:
    """Yields every way to break the kernel by leaving out one fence, barrier or wait, or making it weaker.
    `code` is the parsed CUDA source."""
    yield from _dropped_calls(code)
    yield from _dropped_assembly(code)
    yield from _endless_waits(code)
    yield from _weaker_orders(code)
    yield from _fewer_groups(code)


def _dropped_calls(code: Code) -> Iterator[Mutation]:
    """Yields mutations that each drop one statement which is only a call of a barrier, a fence or a wait,
    including calls of the source's own functions that wait for an mbarrier. `code` is the parsed CUDA
    source."""
    waiting = {
        text(f.child_by_field_name("declarator")).split("(")[0]
        for f in code.functions
        if _WAITS.search(text(f)) and "__global__" not in text(f)
    }
    for node in code.device("expression_statement"):
        call = node.named_children[0] if node.named_children else None
        if call is None or call.type != "call_expression":
            continue
        name = text(call.child_by_field_name("function"))
        if _CALLS.fullmatch(name) or name in waiting:
            yield replace(node, ";", f"drop {short(node)}", _argument(text(node)))


def _dropped_assembly(code: Code) -> Iterator[Mutation]:
    """Yields mutations that each drop one inline assembly statement which is a barrier, a fence or a wait,
    outside of while loops. `code` is the parsed CUDA source."""
    for node in code.device("expression_statement"):
        inner = node.named_children[0] if node.named_children else None
        if inner is None or inner.type != "gnu_asm_expression" or within(node, "while_statement"):
            continue
        if _ASSEMBLY.search(text(node)):
            yield replace(node, ";", f"drop {short(node)}", _argument(text(node)))


def _endless_waits(code: Code) -> Iterator[Mutation]:
    """Yields mutations that each drop one loop in which a kernel polls an mbarrier until its phase completes.
    `code` is the parsed CUDA source."""
    for node in code.device("while_statement"):
        if _WAITS.search(text(node)):
            yield replace(node, ";", "drop the loop that waits for an mbarrier", _NOT_AWAITED)


def _weaker_orders(code: Code) -> Iterator[Mutation]:
    """Yields mutations that each replace an acquire, release or stronger memory order by relaxed, in inline
    assembly or in C++ atomics. `code` is the parsed CUDA source."""
    for node in code.device("string_content"):
        for pattern, strong, weak in _WEAKER:
            if re.search(pattern, text(node)):
                yield replace(node, text(node).replace(strong, weak), f"{strong} made {weak}", _UNORDERED)
    for node in code.device("qualified_identifier"):
        if re.search(r"memory_order_(acquire|release|acq_rel|seq_cst)$", text(node)):
            name = re.sub(r"_(acquire|release|acq_rel|seq_cst)$", "_relaxed", text(node))
            yield replace(node, name, f"{short(node)} made relaxed", _UNORDERED)


def _fewer_groups(code: Code) -> Iterator[Mutation]:
    """Yields mutations that each wait for one group of asynchronous copies less: `cp.async.wait_group 0`
    becomes `1`. `code` is the parsed CUDA source."""
    for node in code.device("string_content"):
        found = re.fullmatch(r"(cp\.async\.(?:bulk\.)?wait_group(?:\.read)? )(\d+)(;.*)", text(node))
        if found:
            yield replace(
                node, f"{found[1]}{int(found[2]) + 1}{found[3]}", "wait for one group less", _NOT_AWAITED
            )
    for node in code.device("call_expression"):
        found = re.fullmatch(r"__pipeline_wait_prior\((\d+)\)", text(node))
        if found:
            yield replace(
                node, f"__pipeline_wait_prior({int(found[1]) + 1})", "wait for one group less", _NOT_AWAITED
            )


def _argument(statement: str) -> str:
    """Why a kernel without this statement is wrong even if no run shows it, in words; empty for barriers, of
    which some are redundant: a mutant without one counts as wrong only if the emulator's race check finds
    something."""
    if _ORDERING.search(statement):
        return _UNORDERED
    return _NOT_AWAITED if _AWAITING.search(statement) and "arrive" not in statement else ""
