"""Infers how many elements a CUDA source's tensors have, in terms of its size parameters, from the indices in
its kernels.

`x[row * cols + col]` under `row < rows` means that x has rows * cols elements. The result may be too large;
one that is too small is noticed when the kernel is run in the PTX emulator, which checks every access.
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
    """What the kernels show about the parameters of the launch function, by the parameters' names.

    `dims[p]`: names of sizes whose product is the number of elements of the tensor p; "?" stands for a factor
    that was not found out. `indexing[p]`: the tensor that the integers in p are indices into. `written`:
    tensors with elements assigned by `=`, a memset or a copy. `read`: tensors with elements that are read
    before they are written. `changed`: tensors written in any way, also by atomics. `constants`: the value of
    each size in `dims` that is no parameter but a named number of the source; `#define BINS 256` gives
    {"bins_count": 256}.
    """

    dims: dict[str, Sizes] = field(default_factory=dict)
    indexing: dict[str, str] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    constants: dict[str, int] = field(default_factory=dict)


def extents(source: CudaSource, entry: Function) -> Extents:
    """Returns what the kernels of a CUDA source show about the pointers that `entry`, the launch function,
    passes to them: how many elements each has, and whether it is read or written. Pointers that no kernel
    indexes are not among the keys of `dims` in the result."""
    cleared = set(_cleared(entry))
    inferred = Extents(written=cleared, changed=set(cleared))
    sizes = {p.name for p in entry.parameters if not p.pointer}
    for launch in source.launches:
        kernel = source.function(launch.kernel)
        if launch.caller.node == entry.node and kernel is not None:
            _Kernel(kernel, launch, sizes, source.constants).into(inferred)
    named = {constant_size(name): value for name, value in source.constants.items()}
    used = {dim for dims in inferred.dims.values() for dim in dims}
    inferred.constants = {name: value for name, value in named.items() if name in used - sizes}
    return inferred


def constant_size(name: str) -> str:
    """Returns the name of the size that stands for a constant `name` of the source: the constant's name in
    lower case with `_count` added. The constant's own name cannot be used: if it is a macro, the compiler
    would replace it."""
    return f"{name.lower()}_count"


class _Kernel:
    """The analysis of one launch of a kernel. `_outer` maps its parameters to the text of their arguments;
    `_sizes` and `_pointers` map to names those whose argument is a plain parameter of the launch function;
    `_defined` maps local variables to initializers; `_bounds` maps expressions to the sizes whose product
    they are below."""

    def __init__(
        self, kernel: Function, launch: LaunchSyntax, sizes: set[str], constants: Mapping[str, int]
    ) -> None:
        """`sizes` are the names of the launch function's parameters that are not pointers, `constants`
        the source's named numbers."""
        self._kernel = kernel
        self._constants = constants
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
        """Add to `inferred` what this kernel's accesses show. To be called for the launches in their order,
        so that `read` means read before any write."""
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
        """Record the extent that one access shows: `pointer` (a kernel parameter) is indexed by the sum
        of the expressions in `index`. The most complete extent found is kept; indices that are
        themselves loaded from an integer tensor are noted in `indexing`."""
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
        """The sizes whose product bounds an index, which is given as a sum of products (see `_terms`): those
        of the product with the most sizes. `?` stands for a factor without a known bound; numbers are left
        out."""
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
        """An index expression as a sum of products: a list of products, each a tuple of the texts of its
        factors. Local variables without a known bound are replaced by their initializers, `depth`
        levels deep; what is neither sum nor product is one factor."""
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
        """The sum of products (see `_terms`) for a binary expression with the operator `kind` and the
        operands `pair`. For `a % b` and `a & b` it is b, which bounds it. `depth` is as in `_terms`."""
        if kind in ("%", "&"):
            return [(text(bare(pair[1])),)]  # below it
        left, right = (self._terms(side, depth) for side in pair)
        if kind == "*":
            return [(*a, *b) for a in left for b in right]
        return [self._divided(left, right)] if kind == "/" else left + right

    def _divided(self, left: list[tuple[str, ...]], right: list[tuple[str, ...]]) -> tuple[str, ...]:
        """The product of factors (see `_terms`) for the quotient of two sums of products, `left` / `right`.
        `i / cols` for an i below rows * cols is a new factor that is below rows; for any other quotient, the
        longest product of the dividend."""
        if len(left) == len(right) == 1 and len(left[0]) == len(right[0]) == 1:
            bound, by = self._bounds.get(left[0][0], ()), self._sizes.get(right[0][0])
            if by in bound:
                rest = tuple(size for size in bound if size != by)
                name = f"{left[0][0]} / {by}"
                self._bounds[name] = rest
                return (name,)
        return max(left, key=len)

    def _product(self, node: Node, depth: int = DEEPEST) -> Sizes:
        """The sizes that a bound such as `rows * cols` is the product of, following local variables `depth`
        levels deep; a constant that is added or subtracted is ignored. Empty if the bound is no product of
        sizes."""
        node = bare(node)
        pair, kind, name = sides(node), operator(node), text(node)
        if node.type == "binary_expression" and pair is not None:
            left, right = self._product(pair[0], depth), self._product(pair[1], depth)
            if kind == "*" and left and right:
                return left + right
            return left if kind in "+-" and text(bare(pair[1])).isalnum() else ()
        if name in self._sizes or name in self._constants:
            return (self._sizes.get(name) or constant_size(name),)
        outer = self._outer.get(name)
        if outer and "*" in outer:
            parts = [part.strip() for part in outer.split("*")]
            return tuple(parts) if all(part in self._host_sizes for part in parts) else ()
        if name in self._defined and depth:
            return self._product(self._defined[name], depth - 1)
        return ()

    def _pointer(self, node: Node | None) -> tuple[str | None, Node | None]:
        """(kernel parameter, offset) of an expression (`node`) that is a pointer parameter (offset None), or
        a local variable that was initialized as parameter + offset. (None, None) for any other."""
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
    """Whether the extent `new` of a tensor should replace `old`: fully known ones win over those with `?`,
    then longer ones."""
    return (UNKNOWN not in new, len(new)) > (UNKNOWN not in old, len(old))


def _definitions(body: Node) -> Iterator[tuple[str, Node]]:
    """(variable, initializer) of each initialized declaration in a body, in source order; a name may
    occur twice."""
    for node in walk(body, "init_declarator"):
        value = node.child_by_field_name("value")
        if value is not None:
            yield declared_name(node.child_by_field_name("declarator")), value


def _comparisons(body: Node) -> Iterator[tuple[str, Node]]:
    """(name, bound) of each comparison of a variable in a body: `name < bound`, `name >= bound` (as in an
    early return), and the same with sides exchanged."""
    for node in walk(body, "binary_expression"):
        pair, kind = sides(node), operator(node)
        if pair is None or kind not in ("<", ">=", ">", "<="):
            continue
        small, large = pair if kind in ("<", ">=") else pair[::-1]
        if bare(small).type == "identifier":
            yield text(bare(small)), large


def _grid(launch: LaunchSyntax) -> Mapping[str, Sizes]:
    """`blockIdx.x` and so on with the size that bounds it, for those grid dimensions that are exactly a
    parameter of the launch function."""
    names = [text(bare(part)) for part in dimensions(launch, launch.grid)]
    sizes = {p.name for p in launch.caller.parameters if not p.pointer}
    return {f"blockIdx.{axis}": (n,) for axis, n in zip("xyz", names, strict=False) if n in sizes}


def _stored(access: Node) -> int | None:
    """If an access such as `x[i]` is the left side of a plain `=`: the byte offset of the assignment's end,
    by which reads and writes are ordered. None for all other accesses, `+=` included, as they read the
    element."""
    above = access.parent
    if above is None or above.type != "assignment_expression" or operator(above) != "=":
        return None
    left = above.child_by_field_name("left")
    return above.end_byte if left is not None and left.id == access.id else None


def _changes(access: Node) -> bool:
    """Whether an access such as `x[i]` may write the element: it is assigned, incremented, its address is
    taken, or it is in an atomic operation."""
    above = access.parent
    if access.type == "call_expression" or above is None:
        return True  # an atomic operation
    left = above.child_by_field_name("left") if above.type == "assignment_expression" else None
    taken = above.type == "pointer_expression" and operator(above) == "&"
    return taken or above.type == "update_expression" or (left is not None and left.id == access.id)


def _whole(node: Node) -> Node | None:
    """The pointer in an expression that accesses what it points to without an index, `*p` or `atomicAdd(p,
    v)`, as a node of the syntax tree; None for any other expression."""
    if node.type == "pointer_expression":
        return node.child_by_field_name("argument") if operator(node) == "*" else None
    given = node.child_by_field_name("arguments")
    atomic = text(node.child_by_field_name("function")).startswith("atomic")
    return given.named_children[0] if atomic and given is not None and given.named_children else None


def _cleared(entry: Function) -> Iterator[str]:
    """Yields the names of the pointers that the launch function passes to cudaMemset or cudaMemcpy as
    destination: tensors that are written before any kernel runs."""
    for call in walk(entry.body, "call_expression"):
        if re.match(r"cudaMem(set|cpy)", text(call.child_by_field_name("function"))):
            given = call.child_by_field_name("arguments")
            if given is not None and given.named_children:
                yield text(bare(given.named_children[0]))
