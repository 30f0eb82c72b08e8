"""Mutations: numbers rounded to fewer bits than the task's types have. (A double accumulator made float is
legitimate and not included.)"""

import re
from collections.abc import Iterator

from kernelblaster.tasks.cuda_source import operator, sides, text
from kernelblaster.testing.mutations.tree import Code, Mutation, replace, short

_HALF = "__half2float(__float2half({}))"
_BFLOAT16 = "__bfloat162float(__float2bfloat16({}))"
_TF32 = "__uint_as_float(__float_as_uint({}) & 0xffffe000u)"
_FUNCTIONS = re.compile(r"(exp|exp2|log|sqrt|rsqrt|tanh|erf)f?|__expf")
_TANH = '([](float v) {{ float r; asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(v)); return r; }}({}))'


def edits(code: Code) -> Iterator[Mutation]:
    """Yields every way to break the kernel by rounding one value to fewer bits than its task's type has.
    `code` is the parsed CUDA source."""
    yield from _sums(code)
    yield from _operands(code)
    yield from _functions(code)
    yield from _stores(code)


def _sums(code: Code) -> Iterator[Mutation]:
    """Yields mutations that each round one accumulator to half, bfloat16 or TF32 after every addition. `code`
    is the parsed CUDA source."""
    for node in code.device("assignment_expression"):
        pair = sides(node)
        if pair is None or operator(node) != "+=" or not all(map(code.is_floating, pair)):
            continue
        sum_ = f"{text(pair[0])} + ({text(pair[1])})"
        for name, rounded in (("half", _HALF), ("bfloat16", _BFLOAT16), ("tf32", _TF32)):
            new = f"{text(pair[0])} = {rounded.format(sum_)}"
            yield replace(node, new, f"{short(node)}: accumulated in {name}")


def _operands(code: Code) -> Iterator[Mutation]:
    """Yields mutations that each round the factors of one accumulated product (`+= a * b`, or an fma) to
    bfloat16 or TF32. `code` is the parsed CUDA source."""
    for node in code.device("binary_expression"):
        pair = sides(node)
        summed = node.parent is not None and operator(node.parent) == "+="
        if pair is not None and operator(node) == "*" and summed and all(map(code.is_floating, pair)):
            for name, rounded in (("bfloat16", _BFLOAT16), ("tf32", _TF32)):
                new = " * ".join(rounded.format(text(side)) for side in pair)
                yield replace(node, new, f"{short(node)}: factors rounded to {name}")
    for node in code.device("call_expression"):
        arguments = node.child_by_field_name("arguments")
        given = arguments.named_children if arguments is not None else []
        if re.fullmatch(r"(__)?fmaf?(_rn)?", text(node.child_by_field_name("function"))) and len(given) == 3:
            for name, rounded in (("bfloat16", _BFLOAT16), ("tf32", _TF32)):
                first, second = (rounded.format(text(one)) for one in given[:2])
                new = f"fmaf({first}, {second}, {text(given[2])})"
                yield replace(node, new, f"{short(node)}: factors rounded to {name}")


def _functions(code: Code) -> Iterator[Mutation]:
    """Yields mutations that each round the argument or the result of one math function to half, or replace
    `tanh` by tanh.approx. `code` is the parsed CUDA source."""
    for node in code.device("call_expression"):
        name, arguments = text(node.child_by_field_name("function")), node.child_by_field_name("arguments")
        if not _FUNCTIONS.fullmatch(name) or arguments is None:
            continue
        inner = text(arguments)
        yield replace(node, _HALF.format(text(node)), f"{short(node)}: rounded to half")
        yield replace(node, f"{name}({_HALF.format(inner)})", f"{short(node)}: argument rounded to half")
        if name.startswith("tanh"):
            yield replace(node, _TANH.format(inner), f"{short(node)}: tanh.approx")


def _stores(code: Code) -> Iterator[Mutation]:
    """Yields mutations that each round one value to bfloat16 when it is stored to memory. Yields nothing for
    sources that use 16-bit types anyway. `code` is the parsed CUDA source."""
    if re.search(r"half|bfloat16", code.source):
        return
    for node in code.device("assignment_expression"):
        pair = sides(node)
        if pair is None or operator(node) != "=" or pair[0].type != "subscript_expression":
            continue
        if all(map(code.is_floating, pair)):
            new = f"{text(pair[0])} = {_BFLOAT16.format(text(pair[1]))}"
            yield replace(node, new, f"{short(node)}: stored value rounded to bfloat16")
