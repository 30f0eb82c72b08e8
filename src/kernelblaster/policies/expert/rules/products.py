"""Simplification rules for matrix products: products in another order, and less work where only the diagonal
or a sum of a product is used."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.graph import Graph, Node, Reference, Result
from kernelblaster.policies.expert.index import ONE, ZERO, Index, number
from kernelblaster.policies.expert.operators.views import matched
from kernelblaster.policies.expert.patterns import (
    RESHAPES,
    Found,
    Rule,
    Shape,
    dimensions,
    dtype_of,
    keeps_type,
    literal,
    producer,
    same_shape,
    shape_of,
    sole_producer,
    summed,
    viewed,
)
from kernelblaster.records.signature import Dtype

PRODUCTS = ("mm.default", "bmm.default")


def chain(graph: Graph, node: Node) -> Found:
    """Simplification rule: the product (A B) C becomes A (B C), or the reverse, if that takes fewer
    multiplications in the primary workload (the timed sizes), as it often does if one of the matrices is a
    vector. Returns None for other nodes. If other nodes also use the inner product, it must be computed in
    any case; its multiplications then do not count as saved."""
    if node.operator not in PRODUCTS:
        return None
    for name in ("self", "mat2"):
        inner = producer(graph, node.arguments[name])
        if inner is None or inner.operator != node.operator:
            continue
        one, two = inner.arguments["self"], inner.arguments["mat2"]
        if name == "self":
            a, b, c = one, two, node.arguments["mat2"]
        else:
            a, b, c = node.arguments["self"], one, two
        m, k, n, p = _extents(graph, a, b, c)
        from_left, from_right = m * k * n + m * n * p, k * n * p + m * k * p
        done = (m * k * n if name == "self" else k * n * p) if graph.uses[inner.name] > 1 else 0
        before, after = (from_left, from_right) if name == "self" else (from_right, from_left)
        if after < before - done:
            return _associated(graph, node, (a, b, c), left_first=name == "mat2")
    return None


def weighted_sum(graph: Graph, node: Node) -> Found:
    """Simplification rule: the sum over j of (A B)_ij v_j becomes the matrix product of A B and the vector v.
    The rule `chain` can then make A (B v) of it, which takes fewer multiplications. Returns None for other
    nodes."""
    scaled = sole_producer(graph, node.arguments.get("self"))
    if node.operator != "sum.dim_IntList" or scaled is None or scaled.operator != "mul.Tensor":
        return None
    matrix, vector = scaled.arguments["self"], scaled.arguments["other"]
    product = producer(graph, matrix)
    if product is None or product.operator != "mm.default" or not isinstance(vector, Reference):
        return None
    if dimensions(graph, node) != [1] or len(shape_of(graph, vector)) != 1 or node.arguments["keepdim"]:
        return None
    dtype, (rows, _) = node.results[0].dtype, product.results[0].shape
    upright = viewed(f"{node.name}_column", vector, (*shape_of(graph, vector), ONE), dtype)
    factors = {"self": matrix, "mat2": Reference(upright.name)}
    result = Node(f"{node.name}_product", "mm.default", factors, (Result((rows, ONE), dtype),))
    return upright, result, viewed(node.name, Reference(result.name), (rows,), dtype)


def sum_of_product(graph: Graph, node: Node) -> Found:
    """Simplification rule: the sum or mean of a matrix product A B over its rows or columns (or over groups
    of them) becomes a smaller product, of factors that are summed first: the sum over the rows of A B is (the
    sum over the rows of A) B. A bias is summed by itself. Returns None for other nodes, and if that does not
    save work."""
    if node.operator not in ("sum.dim_IntList", "mean.dim") or not keeps_type(graph, node):
        return None
    found = _summed_product(graph, node)
    if found is None or not found.worthwhile(graph):
        return None
    name, dtype = node.name, node.results[0].dtype
    left = found.factor(graph, f"{name}_left", found.rows)
    right = found.factor(graph, f"{name}_right", found.columns)
    shape = (*left[-1].results[0].shape[:-1], right[-1].results[0].shape[-1])
    factors = {"self": Reference(left[-1].name), "mat2": Reference(right[-1].name)}
    last = Node(f"{name}_product", found.operator, factors, (Result(shape, dtype),))
    nodes = [*left, *right, last]
    if found.bias is not None:
        nodes += _biased(graph, found, Reference(last.name), shape, name)
    if node.operator == "mean.dim":
        count = indices.product(found.shape[dim] for dim in dimensions(graph, node))
        divided = {"self": Reference(nodes[-1].name), "other": count}
        nodes.append(Node(f"{name}_mean", "div.Tensor", divided, (Result(shape, dtype),)))
    return (*nodes, viewed(name, Reference(nodes[-1].name), node.results[0].shape, dtype))


def diagonal_of_product(graph: Graph, node: Node) -> Found:
    """Simplification rule for the diagonal of a matrix product A B: only the elements of the diagonal are
    computed, each as the sum of a row of A times the column of B with the same number. Returns None for other
    nodes."""
    product = sole_producer(graph, node.arguments.get("self"))
    if node.operator != "diagonal.default" or product is None or product.operator not in PRODUCTS:
        return None
    rank = len(product.results[0].shape)
    dims = sorted(node.arguments[name].value % rank for name in ("dim1", "dim2"))
    if dims != [rank - 2, rank - 1] or literal(node.arguments["offset"]) != 0:
        return None
    dtype, length = node.results[0].dtype, node.results[0].shape[-1]
    left, right = product.arguments["self"], product.arguments["mat2"]
    *batch, inner, columns = shape_of(graph, right)
    order = (*(number(place) for place in range(rank - 2)), number(rank - 1), number(rank - 2))
    turned = Node(
        f"{node.name}_turned",
        "permute.default",
        {"self": right, "dims": order},
        (Result((*batch, columns, inner), dtype),),
    )
    cut = [_first_rows(f"{node.name}_rows", left, shape_of(graph, left), length, dtype)]
    cut.append(
        _first_rows(f"{node.name}_columns", Reference(turned.name), turned.results[0].shape, length, dtype)
    )
    shape = (*batch, length, inner)
    both = {"self": Reference(cut[0].name), "other": Reference(cut[1].name)}
    terms = Node(f"{node.name}_terms", "mul.Tensor", both, (Result(shape, dtype),))
    return turned, *cut, terms, replace(summed(graph, node.name, terms, [rank - 1]), results=node.results)


def diagonal_factor(graph: Graph, node: Node) -> Found:
    """Simplification rule: a matrix product with diag(v) becomes the other factor, with its rows or columns
    multiplied by v. Returns None for other nodes."""
    if node.operator != "mm.default":
        return None
    for name, other in (("self", "mat2"), ("mat2", "self")):
        vector = _diagonal(graph, node.arguments[name])
        if vector is not None:
            length = node.results[0].shape[0 if name == "self" else 1]
            shape = (length, ONE) if name == "self" else (ONE, length)
            spread = viewed(f"{node.name}_factors", vector, shape, node.results[0].dtype)
            scaled = {"self": node.arguments[other], "other": Reference(spread.name)}
            return spread, replace(node, operator="mul.Tensor", arguments=scaled)
    return None


RULES: tuple[Rule, ...] = (weighted_sum, chain, sum_of_product, diagonal_of_product, diagonal_factor)


@dataclass(frozen=True)
class _Factor:
    """One factor of a matrix product whose result is summed. Its dimension number `place` holds its rows (of
    the right factor: its columns); `split` are the extents into which a reshape of the product splits that
    dimension, and `taken` the positions in `split` of those that are summed."""

    reference: Reference
    place: int
    split: Shape
    taken: tuple[int, ...]

    @property
    def kept(self) -> Index:
        return indices.product(e for place, e in enumerate(self.split) if place not in self.taken)

    @property
    def count(self) -> Index:
        return indices.product(self.split[place] for place in self.taken)


@dataclass(frozen=True)
class _SummedProduct:
    """A matrix product of which the graph needs only sums, so that its factors can be summed first, which is
    less work. The result, possibly with a bias, is reshaped to `shape` and then summed over some dimensions.
    `needed`: other nodes use the product itself too, so it must be computed anyway."""

    operator: str
    rows: _Factor
    columns: _Factor
    bias: Reference | None
    shape: Shape
    needed: bool

    def factor(self, graph: Graph, name: str, factor: _Factor) -> list[Node]:
        """New nodes that compute `factor` (an operand of the product) with those of its rows or columns added
        up that the sum over the product adds up. The last node is called `name`. If nothing is to be added
        up, it is only a view."""
        dtype, shape = dtype_of(graph, factor.reference), list(shape_of(graph, factor.reference))
        before, after = shape[: factor.place], shape[factor.place + 1 :]
        split = viewed(f"{name}_split", factor.reference, (*before, *factor.split, *after), dtype)
        if not factor.taken:
            return [viewed(name, factor.reference, tuple(shape), dtype)]
        total = summed(graph, f"{name}_sum", split, [len(before) + place for place in factor.taken])
        return [split, total, viewed(name, Reference(total.name), (*before, factor.kept, *after), dtype)]

    def worthwhile(self, graph: Graph) -> bool:
        *batch, m, k = (graph.values(extent)[0] for extent in shape_of(graph, self.rows.reference))
        n = graph.values(shape_of(graph, self.columns.reference)[-1])[0]
        kept = [graph.values(factor.kept)[0] for factor in (self.rows, self.columns)]
        sums = m * k * bool(self.rows.taken) + k * n * bool(self.columns.taken)
        return prod(batch) * (sums + k * prod(kept)) < prod(batch) * m * n * (1 if self.needed else k)


def _summed_product(graph: Graph, node: Node) -> _SummedProduct | None:
    """The matrix product whose rows or columns the sum or mean `node` adds up; None if it sums something
    else."""
    operand = node.arguments["self"]
    product, alone = producer(graph, operand), True
    while product is not None and product.operator in RESHAPES:
        alone = alone and graph.uses[product.name] == 1
        product = producer(graph, product.arguments["self"])
    if product is None or product.operator not in (*PRODUCTS, "addmm.default"):
        return None
    bias = product.arguments["self"] if product.operator == "addmm.default" else None
    if bias is not None and not _plain_bias(graph, product):
        return None
    whole, shape = product.results[0].shape, shape_of(graph, operand)
    groups = {olds[0]: news for olds, news in matched(graph, whole, shape) if len(olds) == 1}
    wanted = {dim for dim in dimensions(graph, node) if set(graph.values(shape[dim])) != {1}}
    if not wanted or not wanted <= {new for old in (-2, -1) for new in groups.get(len(whole) + old, [])}:
        return None
    names = ("mat1", "mat2") if bias is not None else ("self", "mat2")
    factors = []
    for name, old, place in zip(names, (-2, -1), (len(whole) - 2, len(whole) - 1), strict=True):
        news = groups.get(len(whole) + old, [])
        taken = tuple(i for i, new in enumerate(news) if new in wanted)
        split = tuple(shape[new] for new in news) or (whole[old],)
        factors.append(_Factor(product.arguments[name], place, split, taken))
    operator = "mm.default" if bias is not None else product.operator
    needed = not (alone and graph.uses[product.name] == 1)
    return _SummedProduct(operator, factors[0], factors[1], bias, shape, needed)


def _plain_bias(graph: Graph, product: Node) -> bool:
    factors = [literal(product.arguments[name]) for name in ("beta", "alpha")]
    return factors == [1, 1] and len(shape_of(graph, product.arguments["self"])) == 1


def _biased(graph: Graph, found: _SummedProduct, product: Reference, shape: Shape, name: str) -> list[Node]:
    """New nodes that add the bias of `found` to `product`, the product that is already summed and has this
    `shape`. The bias is first summed in the same way: it counts once for each element that a sum adds up. The
    nodes' names begin with `name`."""
    assert found.bias is not None
    dtype = dtype_of(graph, found.bias)
    bias = found.factor(graph, f"{name}_bias", replace(found.columns, reference=found.bias, place=0))
    if found.rows.taken:
        often = {"self": Reference(bias[-1].name), "other": found.rows.count}
        bias.append(Node(f"{name}_biases", "mul.Tensor", often, bias[-1].results))
    total = {"self": product, "other": Reference(bias[-1].name), "alpha": ONE}
    return [*bias, Node(f"{name}_biased", "add.Tensor", total, (Result(shape, dtype),))]


def _extents(graph: Graph, a: Reference, b: Reference, c: Reference) -> tuple[int, int, int, int]:
    shapes = [shape_of(graph, reference) for reference in (a, b, c)]
    found = (shapes[0][-2], shapes[0][-1], shapes[1][-1], shapes[2][-1])
    m, k, n, p = (graph.values(extent)[0] for extent in found)
    return m, k, n, p


def _associated(
    graph: Graph, node: Node, factors: Sequence[Reference], *, left_first: bool
) -> tuple[Node, Node]:
    a, b, c = factors
    dtype, batch = node.results[0].dtype, node.results[0].shape[:-2]
    one, two = (a, b) if left_first else (b, c)
    shape = (*batch, shape_of(graph, one)[-2], shape_of(graph, two)[-1])
    name = f"{node.name}_{'left' if left_first else 'right'}"
    first = Node(name, node.operator, {"self": one, "mat2": two}, (Result(shape, dtype),))
    both = (Reference(name), c) if left_first else (a, Reference(name))
    return first, replace(node, arguments={"self": both[0], "mat2": both[1]})


def _first_rows(name: str, reference: Reference, shape: Shape, length: Index, dtype: Dtype) -> Node:
    place = number(len(shape) - 2)
    cut = {"self": reference, "dim": place, "start": ZERO, "end": length, "step": ONE}
    return Node(name, "slice.Tensor", cut, (Result((*shape[:-2], length, shape[-1]), dtype),))


def _diagonal(graph: Graph, reference: Reference) -> Reference | None:
    """The vector v if the tensor `reference` is diag(v), written as "v where row and column number are equal,
    else 0"; None otherwise."""
    chosen = producer(graph, reference)
    if chosen is None or chosen.operator != "where.self":
        return None
    length, columns = chosen.results[0].shape
    test = producer(graph, chosen.arguments["condition"])
    zero, vector = producer(graph, chosen.arguments["other"]), chosen.arguments["self"]
    if zero is None or zero.operator not in ("scalar_tensor.default", "full.default"):
        return None
    if literal(zero.arguments.get("s", zero.arguments.get("fill_value"))) != 0:
        return None
    if test is None or test.operator != "eq.Tensor" or not same_shape(graph, (length,), (columns,)):
        return None
    sides = [_counts_along(graph, test.arguments[name]) for name in ("self", "other")]
    elements = indices.product(shape_of(graph, vector))
    return vector if {*sides} == {0, 1} and same_shape(graph, (elements,), (length,)) else None


def _counts_along(graph: Graph, reference: Reference) -> int | None:
    """0 if the tensor `reference` is a column with the numbers of the rows (an upright arange), 1 if it is a
    row with those of the columns; None if it is no arange from 0 by 1."""
    shape = shape_of(graph, reference)
    upright = len(shape) == 2 and set(graph.values(shape[1])) == {1}
    node = producer(graph, reference)
    while node is not None and node.operator in RESHAPES:
        node = producer(graph, node.arguments["self"])
    if node is None or node.operator != "arange.start_step":
        return None
    counted = [literal(node.arguments[name]) for name in ("start", "step")]
    return int(not upright) if counted == [0, 1] else None
