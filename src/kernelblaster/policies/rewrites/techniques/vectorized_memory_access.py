"""Vectorized memory access: each thread of an elementwise kernel processes as many consecutive elements as
fit into 16 bytes, and loads and stores them by one instruction each. A remainder at the end, and memory that
is not aligned to 16 bytes, are processed element by element."""

import re
from collections import Counter
from collections.abc import Iterator

from tree_sitter import Node

from kernelblaster.policies.rewrites.elementwise import Elementwise, elementwise, fewer_blocks
from kernelblaster.policies.rewrites.own_source import OwnSource
from kernelblaster.tasks.cuda_source import Function, Parameter, operator, replaced, text, walk

BYTES = {"float": 4, "int": 4, "unsigned": 4, "int32_t": 4, "uint32_t": 4, "double": 8, "int64_t": 8}
BYTES |= {"__half": 2, "half": 2, "__nv_bfloat16": 2, "uint8_t": 1, "int8_t": 1, "unsigned char": 1}
ACCESS = 16  # bytes


def apply(source: OwnSource, kernel: Function) -> Iterator[OwnSource]:
    """Yields one source, in which the kernel accesses memory 16 bytes at a time. Yields nothing unless the
    kernel is elementwise (one thread for each index) and accesses memory behind at least one pointer only at
    the thread's own index. If such pointers differ in element size, those of the most common size are
    vectorized and the others stay as they are."""
    found = elementwise(source, kernel)
    if found is None:
        return
    streamed = [
        p
        for p in kernel.pointers
        if p.kind in BYTES and _only_at(kernel, p.name, found.variable) and _is_whole(kernel, p.name, found)
    ]
    if not streamed:
        return
    size = Counter(BYTES[p.kind] for p in streamed).most_common(1)[0][0]
    streamed = [p for p in streamed if BYTES[p.kind] == size]
    launches = fewer_blocks(source, kernel, ACCESS // size)
    if launches:
        yield source.edited(
            [*launches, replaced(kernel.body, _body(kernel, found, streamed, ACCESS // size))]
        )


def _body(kernel: Function, found: Elementwise, streamed: list[Parameter], width: int) -> str:
    """The kernel's new body, in which each thread processes `width` elements; `streamed` are the pointers to
    access as vectors, `found` the sections of the old body."""
    work = found.work
    for p in streamed:
        work = re.sub(rf"\b{p.name}\s*\[\s*{found.variable}\s*\]", f"{p.name}_vector[each]", work)
    loads = [p for p in streamed if _is_read(kernel, p.name)]
    stores = [p for p in streamed if not p.const and _is_stored(kernel, p.name)]
    aligned = " | ".join(f"(unsigned long long){p.name}" for p in streamed)
    lines = [
        "{",
        f"  const long long first = (long long)({found.index}) * {width};",
        f"  const long long bound = {found.bound};",
        f"  if (first + {width - 1} < bound && (({aligned}) & {ACCESS - 1}) == 0) {{",
        *(f"    alignas({ACCESS}) {p.kind} {p.name}_vector[{width}];" for p in streamed),
        *(f"    *(int4*){p.name}_vector = *(const int4*)({p.name} + first);" for p in loads),
        "#pragma unroll",
        f"    for (int each = 0; each < {width}; ++each) {{",
        f"      [[maybe_unused]] const {found.kind} {found.variable} = ({found.kind})(first + each);",
        f"      {found.written(work, 6)}",
        "    }",
        *(f"    *(int4*)({p.name} + first) = *(const int4*){p.name}_vector;" for p in stores),
        "  } else {",
        "    for (long long place = first; place < bound; ++place) {",
        f"      const {found.kind} {found.variable} = ({found.kind})place;",
        f"      {found.written(found.work, 6)}",
        "    }",
        "  }",
        "}",
    ]
    return "\n".join(lines)


def _only_at(kernel: Function, pointer: str, variable: str) -> bool:
    """Whether the kernel uses `pointer` at all, and only as `pointer[variable]`, where `variable` is the
    thread's own index."""
    mentions = [node for node in walk(kernel.body, "identifier") if text(node) == pointer]
    accesses = [node.parent for node in mentions if node.parent is not None]
    return bool(mentions) and all(
        node.type == "subscript_expression" and re.sub(r"\s", "", text(node)) == f"{pointer}[{variable}]"
        for node in accesses
    )


def _stores(kernel: Function, pointer: str) -> Iterator[Node]:
    """The assignments to elements of `pointer` in the kernel, compound ones such as `+=` included."""
    for node in walk(kernel.body, "assignment_expression"):
        left = node.child_by_field_name("left")
        if left is not None and re.match(rf"{pointer}\s*\[", text(left)):
            yield node


def _is_stored(kernel: Function, pointer: str) -> bool:
    return any(_stores(kernel, pointer))


def _is_read(kernel: Function, pointer: str) -> bool:
    """Whether the kernel reads an element of `pointer` anywhere, by `+=` and the like included."""
    plain = [node for node in _stores(kernel, pointer) if operator(node) == "="]
    return len(re.findall(rf"\b{pointer}\s*\[", text(kernel.body))) > len(plain)


def _is_whole(kernel: Function, pointer: str, found: Elementwise) -> bool:
    """Whether all elements of the vector that a thread stores to `pointer` have values: the kernel also reads
    `pointer` (so they were loaded), or assigns every element unconditionally. `found` are the parts of the
    elementwise kernel."""
    own = {node.id for node in found.nodes}
    always = (node for node in _stores(kernel, pointer) if node.parent is not None and node.parent.id in own)
    return _is_read(kernel, pointer) or any(always)
