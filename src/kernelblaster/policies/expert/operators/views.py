"""Lowers operators that only rename elements (permute, slice, reshape, ...) to index maps, which need no
kernel, and operators that copy elements to other positions (cat, pad, slice_scatter) to kernels."""

from collections.abc import Callable, Sequence

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.builder import Builder, Position, Value, kind_of, lowers
from kernelblaster.policies.expert.expression import Counted, Expression, operation, to_kind
from kernelblaster.policies.expert.graph import Graph, Node, UncoveredOperators, as_expression
from kernelblaster.policies.expert.index import ZERO, Index, number
from kernelblaster.policies.expert.operators.sources import resample

WHOLE_FACTORS = range(1, 17)  # by which PyTorch's own rounding finds the same neighbour as a division


def axis(builder: Builder, node: Node, name: str = "dim", rank: int | None = None) -> int:
    """Returns the dimension that the argument `name` of the operator `node` gives, counted from the front;
    the argument itself may be negative. `rank` is the number of dimensions; None means that of the operand
    `self`."""
    count = builder.value(node.arguments["self"]).rank if rank is None else rank
    place: int = node.arguments[name].value
    return place % max(count, 1)


def _view(builder: Builder, node: Node, back: Callable[[Position], Position], result: int = 0) -> None:
    """Makes result number `result` of the operator `node` a view of its operand, without a kernel. The
    function `back` maps a position in the result to the position of the same element in the operand."""
    source = builder.value(node.arguments["self"])
    found = node.results[result]
    builder.define(node, Value(found.shape, source.dtype, lambda p: source.at(back(p))), result)


@lowers("permute.default")
def permute(builder: Builder, node: Node) -> None:
    rank = len(node.arguments["dims"])
    order = [dim.value % rank for dim in node.arguments["dims"]]
    _view(builder, node, lambda p: tuple(p[order.index(place)] for place in range(rank)))


@lowers("unsqueeze.default")
def unsqueeze(builder: Builder, node: Node) -> None:
    place = axis(builder, node, rank=len(node.results[0].shape))
    _view(builder, node, lambda p: p[:place] + p[place + 1 :])


@lowers("squeeze.dims")
def squeeze(builder: Builder, node: Node) -> None:
    shape = builder.value(node.arguments["self"]).shape
    dims = {dim.value % len(shape) for dim in node.arguments["dim"]}
    gone = {place for place in dims if builder.is_one(shape[place])}

    def back(position: Position) -> Position:
        rest = iter(position)
        return tuple(ZERO if place in gone else next(rest) for place in range(len(shape)))

    _view(builder, node, back)


@lowers("expand.default")
def expand(builder: Builder, node: Node) -> None:
    source, shape = builder.value(node.arguments["self"]), node.results[0].shape
    value = Value(shape, source.dtype, lambda p: builder.spread(source, shape, p))
    builder.define(node, value)


@lowers("select.int")
def select(builder: Builder, node: Node) -> None:
    place = axis(builder, node)
    chosen = node.arguments["index"]
    if chosen.operator == "int" and chosen.value < 0:
        chosen = indices.add(builder.value(node.arguments["self"]).shape[place], chosen)
    _view(builder, node, lambda p: (*p[:place], chosen, *p[place:]))


@lowers("slice.Tensor")
def slice_(builder: Builder, node: Node) -> None:
    place = axis(builder, node)
    start, step = node.arguments["start"] or ZERO, node.arguments["step"]
    if start.operator == "int" and start.value < 0:
        start = indices.add(builder.value(node.arguments["self"]).shape[place], start)

    def back(p: Position) -> Position:
        moved = indices.add(indices.multiply(p[place], step), start)
        return (*p[:place], moved, *p[place + 1 :])

    _view(builder, node, back)


@lowers("slice_scatter.default")
def slice_scatter(builder: Builder, node: Node) -> None:
    """Adds a kernel to `builder` that copies a tensor, except that one of its slices is taken from another
    tensor, the argument `src`."""
    source, part = (builder.value(node.arguments[name]) for name in ("self", "src"))
    place, shape = axis(builder, node), node.results[0].shape
    kind = kind_of(node.results[0].dtype)
    start, step = node.arguments["start"] or ZERO, node.arguments["step"]
    if start.operator == "int" and start.value < 0:
        start = indices.add(shape[place], start)

    def make(position: Position) -> Expression:
        behind = indices.subtract(position[place], start)
        own = indices.divide(behind, step)
        tests = inside(own, part.shape[place])
        if step != number(1):
            low = operation("ge", Counted(behind), Counted(ZERO), kind="truth")
            hit = operation("eq", Counted(indices.remainder(behind, step)), Counted(ZERO), kind="truth")
            tests += [low, hit]
        written = to_kind(part.at((*position[:place], own, *position[place + 1 :])), kind)
        return guarded(tests, written, to_kind(source.at(position), kind))

    builder.pointwise(node, make)


@lowers("copy.default")
def copy(builder: Builder, node: Node) -> None:
    """Lowers `copy`, the operator for `copy_` in graphs without in-place writes. It overwrites a whole tensor
    or view. Its result therefore is the source, broadcast to the shape of the tensor that is overwritten: a
    view, without a kernel. A kernel is added only if the dtype must be converted."""
    source, found = builder.value(node.arguments["src"]), node.results[0]
    if source.dtype == found.dtype:
        builder.define(
            node, Value(found.shape, found.dtype, lambda p: builder.spread(source, found.shape, p))
        )
        return
    kind = kind_of(found.dtype)
    builder.pointwise(node, lambda p: to_kind(builder.spread(source, found.shape, p), kind))


@lowers("split_with_sizes.default")
def split(builder: Builder, node: Node) -> None:
    place, start = axis(builder, node), ZERO
    for result, size in enumerate(node.arguments["split_sizes"]):

        def back(p: Position, start: Index = start) -> Position:
            return (*p[:place], indices.add(p[place], start), *p[place + 1 :])

        _view(builder, node, back, result)
        start = indices.add(start, size)


@lowers("flip.default")
def flip(builder: Builder, node: Node) -> None:
    shape = node.results[0].shape
    turned = {dim.value % len(shape) for dim in node.arguments["dims"]}

    def back(position: Position) -> Position:
        return tuple(
            indices.subtract(indices.subtract(extent, number(1)), p) if place in turned else p
            for place, (p, extent) in enumerate(zip(position, shape, strict=True))
        )

    _view(builder, node, back)


@lowers("repeat.default")
def repeat(builder: Builder, node: Node) -> None:
    source, times = builder.value(node.arguments["self"]), node.arguments["repeats"]
    new = len(times) - source.rank

    def back(position: Position) -> Position:
        rows = zip(position[new:], source.shape, times[new:], strict=True)
        return tuple(p if builder.is_one(n) else indices.remainder(p, extent) for p, extent, n in rows)

    _view(builder, node, back)


@lowers("unfold.default")
def unfold(builder: Builder, node: Node) -> None:
    """Defines the result of `Tensor.unfold` as a view, without a kernel. The result has windows along one
    dimension of the operand; the elements of a window lie along a new last dimension."""
    place, step = axis(builder, node, "dimension"), node.arguments["step"]

    def back(p: Position) -> Position:
        return (*p[:place], indices.add(indices.multiply(p[place], step), p[-1]), *p[place + 1 : -1])

    _view(builder, node, back)


@lowers("roll.default")
def roll(builder: Builder, node: Node) -> None:
    shape = node.results[0].shape
    dims = [dim.value % len(shape) for dim in node.arguments["dims"]]
    if not dims or any(shift.operator != "int" for shift in node.arguments["shifts"]):
        raise UncoveredOperators((f"{node.operator} over all elements, or by a number of sizes",))
    shifts: dict[int, int] = {}
    for dim, shift in zip(dims, node.arguments["shifts"], strict=True):
        shifts[dim] = shifts.get(dim, 0) + shift.value

    def back(position: Position) -> Position:
        return tuple(
            _shifted_back(p, shifts[place], shape[place]) if place in shifts else p
            for place, p in enumerate(position)
        )

    _view(builder, node, back)


def _shifted_back(p: Index, shift: int, extent: Index) -> Index:
    """Where the element at `p` was before all were moved on by `shift` along a dimension of this extent, from
    the end to the beginning again."""
    by = indices.remainder(number(abs(shift)), extent)
    return indices.remainder(indices.add(p, indices.subtract(extent, by) if shift > 0 else by), extent)


@lowers(*(f"upsample_nearest{count}d.default" for count in (1, 2, 3)))
def upsample(builder: Builder, node: Node) -> None:
    """Defines the result of a nearest-neighbour resampling. If all factors are whole numbers up to 16, the
    same in all workloads, it is a view, without a kernel, in which elements are repeated. Otherwise a kernel
    looks up each element."""
    source, shape = builder.value(node.arguments["self"]), node.results[0].shape
    pairs = [
        [builder.graph.values(extents[place]) for extents in (source.shape, shape)]
        for place in range(2, len(shape))
    ]
    factors = [{after / before for before, after in zip(*pair, strict=True)} for pair in pairs]
    if not all(len(found) == 1 and min(found) in WHOLE_FACTORS for found in factors):
        resample(builder, node)
        return
    steps = [number(int(min(found))) for found in factors]

    def back(position: Position) -> Position:
        return (*position[:2], *(indices.divide(p, s) for p, s in zip(position[2:], steps, strict=True)))

    _view(builder, node, back)


@lowers("diagonal.default")
def diagonal(builder: Builder, node: Node) -> None:
    rank = builder.value(node.arguments["self"]).rank
    one, two = axis(builder, node, "dim1"), axis(builder, node, "dim2")
    offset = node.arguments["offset"].value

    def back(position: Position) -> Position:
        rest = iter(position[:-1])
        last = position[-1]
        row = indices.add(last, number(max(-offset, 0)))
        column = indices.add(last, number(max(offset, 0)))
        return tuple({one: row, two: column}.get(place) or next(rest) for place in range(rank))

    _view(builder, node, back)


@lowers("view.default", "_unsafe_view.default", "reshape.default")
def reshape(builder: Builder, node: Node) -> None:
    """Defines the result of a reshape as a view, without a kernel. Dimensions before and after it are matched
    in groups with equal numbers of elements, so that indices need divisions and remainders only where
    dimensions are really split or merged."""
    old, new = builder.value(node.arguments["self"]).shape, node.results[0].shape
    groups = matched(builder.graph, old, new)

    def back(position: Position) -> Position:
        found: list[Index] = [ZERO] * len(old)
        for olds, news in groups:
            rest = indices.row_major((position[n] for n in news), (new[n] for n in news))
            for place in reversed(olds[1:]):
                found[place] = indices.remainder(rest, old[place])
                rest = indices.divide(rest, old[place])
            if olds:
                found[olds[0]] = rest
        return tuple(found)

    _view(builder, node, back)


def matched(graph: Graph, old: Sequence[Index], new: Sequence[Index]) -> list[tuple[list[int], list[int]]]:
    """Matches the dimensions of a tensor before a reshape (`old`) with those after it (`new`). Returns groups
    that cover the same elements in all workloads of the graph, each as (positions in `old`, positions in
    `new`): [([0], [0]), ([1], [1, 2])] for a reshape from (2, 6) to (2, 2, 3). Dimensions of extent 1 are in
    no group."""
    olds, news = (
        [place for place, extent in enumerate(shape) if set(graph.values(extent)) != {1}]
        for shape in (old, new)
    )
    groups: list[tuple[list[int], list[int]]] = []
    left: list[int] = []
    right: list[int] = []
    while olds or news:
        before = graph.values(indices.product(old[p] for p in left))
        after = graph.values(indices.product(new[p] for p in right))
        if left and right and before == after:
            groups.append((left, right))
            left, right = [], []
        elif olds and (not left or not news or sum(before) <= sum(after)):
            left.append(olds.pop(0))
        else:
            right.append(news.pop(0))
    return [*groups, (left, right)] if left or right else groups


@lowers("cat.default")
def cat(builder: Builder, node: Node) -> None:
    """Lowers `torch.cat` to one kernel: each element is loaded from the operand in whose range its index
    along the joined dimension lies. The result is stored in memory; it is no view."""
    shape = node.results[0].shape
    parts = [builder.value(part) for part in node.arguments["tensors"]]
    place = node.arguments["dim"].value % len(shape)
    kind = kind_of(node.results[0].dtype)

    def make(position: Position) -> Expression:
        pieces, start = [], ZERO
        for part in parts:
            own = (*position[:place], indices.subtract(position[place], start), *position[place + 1 :])
            start = indices.add(start, part.shape[place])
            pieces.append((start, to_kind(part.at(own), kind)))
        result = pieces[-1][1]
        for end, piece in reversed(pieces[:-1]):
            test = operation("lt", Counted(position[place]), Counted(end), kind="truth")
            result = operation("where", test, piece, result, kind=kind)
        return result

    builder.pointwise(node, make)


@lowers("constant_pad_nd.default")
def pad(builder: Builder, node: Node) -> None:
    source, shape = builder.value(node.arguments["self"]), node.results[0].shape
    amounts = node.arguments["pad"]
    kind = kind_of(node.results[0].dtype)

    def make(position: Position) -> Expression:
        inner = list(position)
        tests: list[Expression] = []
        for step in range(len(amounts) // 2):
            place = len(shape) - 1 - step
            inner[place] = indices.subtract(position[place], amounts[2 * step])
            tests += inside(inner[place], source.shape[place])
        value = to_kind(source.at(tuple(inner)), kind)
        return guarded(tests, value, to_kind(as_expression(node.arguments["value"]), kind))

    builder.pointwise(node, make)


def inside(index: Index, extent: Index) -> list[Expression]:
    """Returns two tests, as expressions of the plan: that the symbolic `index` is at least 0, and that it is
    below `extent`."""
    place = Counted(index)
    low = operation("ge", place, Counted(ZERO), kind="truth")
    return [low, operation("lt", place, Counted(extent), kind="truth")]


def guarded(tests: Sequence[Expression], value: Expression, otherwise: Expression) -> Expression:
    """Returns an expression that is `value` where all `tests` hold, and `otherwise` elsewhere. The loads in
    `value` are made only where the tests hold."""
    if not tests:
        return value
    every = tests[0]
    for test in tests[1:]:
        every = operation("and", every, test, kind="truth")
    return operation("where", every, value, otherwise, kind=value.kind)
