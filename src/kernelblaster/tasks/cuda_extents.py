"""Infers the sizes of a CUDA source's tensors, in terms of its size parameters, from the indices in its
kernels.

`x[row * cols + col]` under `row < rows` means that x has rows * cols elements. The result may be too large;
one that is too small is noticed, because the PTX machine checks every access.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tree_sitter import Node

from kernelblaster.tasks.cuda_source import (
    CudaSource,
    Function,
    LaunchSyntax,
    bare,
    declared_name,
    dimensions,
    operator,
    sides,
    text,
    walk,
)

DEEPEST = 8  # definitions that are followed
UNKNOWN = "?"
Sizes = tuple[str, ...]


@dataclass
class Extents:
    """By the names of the launch function's parameters. `dims[p]` are the sizes whose product is the number
    of elements of p, with `?` where unknown; `indexing[p]` names the tensor that p's values index into;
    `read` are those read before they are `written`; `changed` are those written to at all."""

    dims: dict[str, Sizes] = field(default_factory=dict)
    indexing: dict[str, str] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)


def extents(source: CudaSource, entry: Function) -> Extents:
    """The extents of the pointers that the launch function passes to kernels."""
    cleared = set(_cleared(entry))
    inferred = Extents(written=cleared, changed=set(cleared))
    sizes = {p.name for p in entry.parameters if not p.pointer}
    for launch in source.launches:
        kernel = source.function(launch.kernel)
        if launch.caller is entry and kernel is not None:
            _Kernel(kernel, launch, sizes).into(inferred)
    return inferred


class _Kernel:
    """One launch of a kernel, with its parameters bound to the launch function's names."""

    def __init__(self, kernel: Function, launch: LaunchSyntax, sizes: set[str]) -> None:
        self._kernel = kernel
        names = [parameter.name for parameter in kernel.parameters]
        given = [text(bare(argument)) for argument in launch.arguments]
        self._outer = dict(zip(names, given, strict=False))
        self._sizes = {inner: outer for inner, outer in self._outer.items() if outer in sizes}
        self._pointers = {p.name: self._outer[p.name] for p in kernel.pointers if p.name in self._outer}
        self._integers = {p.name for p in kernel.pointers if "int" in p.kind or p.kind in ("long", "char")}
        self._defined = dict(_definitions(kernel.body))
        self._grid = _grid(launch)
        self._host_sizes = sizes
        self._bounds = {
            name: dims for name, bound in _comparisons(kernel.body) if (dims := self._product(bound))
        }

    def into(self, inferred: Extents) -> None:
        reads: dict[str, int] = {}
        writes: dict[str, int] = {}
        for access in walk(self._kernel.body, "subscript_expression"):
            pointer, offset = self._pointer(access.child_by_field_name("argument"))
            if pointer is None:
                continue
            indices = access.child_by_field_name("indices")
            inner = indices.named_children[0] if indices is not None and indices.named_children else None
            self._note(inferred, pointer, [node for node in (offset, inner) if node is not None])
            places = writes if (stored := _stored(access)) else reads
            places.setdefault(self._pointers[pointer], stored or access.start_byte)
            if _changes(access):
                inferred.changed.add(self._pointers[pointer])
        for node in walk(self._kernel.body, "pointer_expression", "call_expression"):
            target = _whole(node)
            if (
                target is not None and text(bare(target)) in self._pointers
            ):  # *p, atomicAdd(p, v): one element
                pointer = self._pointers[text(bare(target))]
                inferred.dims.setdefault(pointer, ())
                places = writes if (stored := _stored(node)) else reads
                places.setdefault(pointer, stored or node.start_byte)
                if _changes(node):
                    inferred.changed.add(pointer)
        first = {name for name, at in reads.items() if at < writes.get(name, at + 1)}
        inferred.read |= first - inferred.written
        inferred.written |= writes.keys()

    def _note(self, inferred: Extents, pointer: str, index: list[Node]) -> None:
        terms = [term for node in index for term in self._terms(node, DEEPEST)]
        dims = self._largest(terms)
        name = self._pointers[pointer]
        known = inferred.dims.get(name)
        if known is None or _better(dims, known):
            inferred.dims[name] = dims
        for term in terms:
            for indexed in re.findall(r"\b(\w+)\[", " ".join(term)):
                if indexed in self._integers and indexed in self._pointers:
                    inferred.indexing[self._pointers[indexed]] = name

    def _largest(self, terms: list[tuple[str, ...]]) -> Sizes:
        """The dimensions of a sum of terms: those of the term with the most sizes."""
        products: list[Sizes] = []
        for term in terms:
            dims: list[str] = []
            for factor in term:
                if factor in self._sizes:
                    dims.append(self._sizes[factor])
                elif factor in self._bounds:
                    dims = [*self._bounds[factor], *dims]
                elif not factor.isdigit():
                    dims = [UNKNOWN, *dims]
            products.append(tuple(dims))
        return max(products, key=len, default=())

    def _terms(self, node: Node, depth: int) -> list[tuple[str, ...]]:
        """An expression as a sum of products of names, multiplied out; other subexpressions stand for
        themselves."""
        node = bare(node)
        name, pair = text(node), sides(node)
        if node.type == "binary_expression" and pair is not None:
            return self._combined(operator(node), pair, depth)
        if name in self._grid:
            self._bounds.setdefault(name, self._grid[name])
        elif name in self._defined and name not in self._bounds and name not in self._sizes and depth:
            return self._terms(self._defined[name], depth - 1)
        return [(name,)]

    def _combined(self, kind: str, pair: tuple[Node, Node], depth: int) -> list[tuple[str, ...]]:
        if kind in ("%", "&"):
            return [(text(bare(pair[1])),)]  # below it
        left, right = (self._terms(side, depth) for side in pair)
        if kind == "*":
            return [(*a, *b) for a in left for b in right]
        return [self._divided(left, right)] if kind == "/" else left + right

    def _divided(self, left: list[tuple[str, ...]], right: list[tuple[str, ...]]) -> tuple[str, ...]:
        """`i / cols` for an i below rows * cols is below rows."""
        if len(left) == len(right) == 1 and len(left[0]) == len(right[0]) == 1:
            bound, by = self._bounds.get(left[0][0], ()), self._sizes.get(right[0][0])
            if by in bound:
                rest = tuple(size for size in bound if size != by)
                name = f"{left[0][0]} / {by}"
                self._bounds[name] = rest
                return (name,)
        return max(left, key=len)

    def _product(self, node: Node, depth: int = DEEPEST) -> Sizes:
        """The sizes whose product an expression is, up to a small correction; empty if it is no product of
        sizes."""
        node = bare(node)
        pair, kind, name = sides(node), operator(node), text(node)
        if node.type == "binary_expression" and pair is not None:
            left, right = self._product(pair[0], depth), self._product(pair[1], depth)
            if kind == "*" and left and right:
                return left + right
            return left if kind in "+-" and text(bare(pair[1])).isalnum() else ()
        if name in self._sizes:
            return (self._sizes[name],)
        outer = self._outer.get(name)
        if outer and "*" in outer:
            parts = [part.strip() for part in outer.split("*")]
            return tuple(parts) if all(part in self._host_sizes for part in parts) else ()
        if name in self._defined and depth:
            return self._product(self._defined[name], depth - 1)
        return ()

    def _pointer(self, node: Node | None) -> tuple[str | None, Node | None]:
        """(parameter, offset expression) of what an expression points into; None where unknown."""
        if node is None:
            return None, None
        name = text(bare(node))
        if name in self._pointers:
            return name, None
        start = self._defined.get(name)
        if start is not None:
            start = bare(start)
            pair = sides(start)
            if start.type == "binary_expression" and pair and text(bare(pair[0])) in self._pointers:
                return text(bare(pair[0])), pair[1]
        return None, None


def _better(new: Sizes, old: Sizes) -> bool:
    return (UNKNOWN not in new, len(new)) > (UNKNOWN not in old, len(old))


def _definitions(body: Node) -> Iterator[tuple[str, Node]]:
    """(variable, initializer) in a body; of several variables with one name, the last."""
    for node in walk(body, "init_declarator"):
        value = node.child_by_field_name("value")
        if value is not None:
            yield declared_name(node.child_by_field_name("declarator")), value


def _comparisons(body: Node) -> Iterator[tuple[str, Node]]:
    """(name, bound) of `name < bound`, `name >= bound` and their mirror images."""
    for node in walk(body, "binary_expression"):
        pair, kind = sides(node), operator(node)
        if pair is None or kind not in ("<", ">=", ">", "<="):
            continue
        small, large = pair if kind in ("<", ">=") else pair[::-1]
        if bare(small).type == "identifier":
            yield text(bare(small)), large


def _grid(launch: LaunchSyntax) -> Mapping[str, Sizes]:
    """The bounds of `blockIdx.x` and so on, for grid dimensions that are exactly a size."""
    names = [text(bare(part)) for part in dimensions(launch, launch.grid)]
    sizes = {p.name for p in launch.caller.parameters if not p.pointer}
    return {f"blockIdx.{axis}": (n,) for axis, n in zip("xyz", names, strict=False) if n in sizes}


def _stored(access: Node) -> int | None:
    """Byte offset of the plain assignment to an accessed element; None where the element is read."""
    above = access.parent
    if above is None or above.type != "assignment_expression" or operator(above) != "=":
        return None
    left = above.child_by_field_name("left")
    return above.end_byte if left is not None and left.id == access.id else None


def _changes(access: Node) -> bool:
    """Whether an accessed element may be written there: anything but a use of its value."""
    above = access.parent
    if access.type == "call_expression" or above is None:
        return True  # an atomic operation
    left = above.child_by_field_name("left") if above.type == "assignment_expression" else None
    taken = above.type == "pointer_expression" and operator(above) == "&"
    return taken or above.type == "update_expression" or (left is not None and left.id == access.id)


def _whole(node: Node) -> Node | None:
    """The pointer's name node in `*p` and `atomicAdd(p, v)`, which refer to it without an index."""
    if node.type == "pointer_expression":
        return node.child_by_field_name("argument") if operator(node) == "*" else None
    given = node.child_by_field_name("arguments")
    atomic = text(node.child_by_field_name("function")).startswith("atomic")
    return given.named_children[0] if atomic and given is not None and given.named_children else None


def _cleared(entry: Function) -> Iterator[str]:
    """Pointers that the launch function sets or copies to before its launches."""
    for call in walk(entry.body, "call_expression"):
        if re.match(r"cudaMem(set|cpy)", text(call.child_by_field_name("function"))):
            given = call.child_by_field_name("arguments")
            if given is not None and given.named_children:
                yield text(bare(given.named_children[0]))
