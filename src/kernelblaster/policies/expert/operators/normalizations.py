"""Turns softmax and the normalizations into kernels (lowers them). Each has reductions, whose results are
then applied to every element."""

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.builder import Builder, Position, lowers
from kernelblaster.policies.expert.combines.arithmetic import MAX, SUM
from kernelblaster.policies.expert.expression import Expression, Reduced, operation, real, to_kind
from kernelblaster.policies.expert.graph import Node, as_expression
from kernelblaster.policies.expert.index import ZERO, Index
from kernelblaster.policies.expert.kernel import Stage, Store
from kernelblaster.policies.expert.operators.reductions import Loops, divided, loops_over, moments


@lowers("_softmax.default", "_log_softmax.default")
def softmax(builder: Builder, node: Node) -> None:
    value = builder.value(node.arguments["self"])
    found = loops_over(value.shape, {node.arguments["dim"].value % value.rank}, keep=True)
    element = value.at(found.position)
    shifted = operation("sub", element, Reduced("largest", "real"))
    stages = [
        Stage("largest", MAX, element, found.reduced),
        Stage("total", SUM, operation("exp", shifted), found.reduced),
    ]
    total = Reduced("total", "real")
    result = operation("div", operation("exp", shifted), total)
    if node.operator.startswith("_log"):
        result = operation("sub", shifted, operation("log", total))
    store = Store(builder.buffer(node), found.position, result, found.reduced)
    builder.reduction(node, found.axes, stages, [store])


def _affine(builder: Builder, node: Node, value: Expression, position: Position) -> Expression:
    """The expression `value`, multiplied by the node's weight and increased by its bias, as far as it has
    them; `position` is where they are read."""
    for name, step in (("weight", "mul"), ("bias", "add")):
        if node.arguments.get(name) is not None:
            value = operation(step, value, builder.value(node.arguments[name]).at(position))
    return value


def _normalize(
    builder: Builder, node: Node, found: Loops, affine: Position, stored: Position | None = None
) -> None:
    """Adds a kernel that normalizes the operand of `node`, (x - mean) / sqrt(variance + eps), over the
    reduced loops of `found`, and applies weight and bias, read at the position `affine`. It stores at the
    position `stored`, or else at the operand's."""
    operand = node.arguments.get("input", node.arguments.get("self"))
    element = builder.value(operand).at(found.position)
    stages, variance = moments(element, found, real(0))
    eps = to_kind(as_expression(node.arguments["eps"]), "real")
    scale = operation("rsqrt", operation("add", variance, eps))
    middle = divided(Reduced("total", "real"), found.count)
    result = operation("mul", operation("sub", element, middle), scale)
    result = _affine(builder, node, result, affine)  # type: ignore[assignment]
    position = found.position if stored is None else stored
    store = Store(builder.buffer(node), position, result, found.reduced)
    builder.reduction(node, found.axes, stages, [store])


@lowers("native_layer_norm.default")
def layer_norm(builder: Builder, node: Node) -> None:
    value = builder.value(node.arguments["input"])
    last = len(node.arguments["normalized_shape"])
    found = loops_over(value.shape, set(range(value.rank - last, value.rank)), keep=True)
    _normalize(builder, node, found, found.position[value.rank - last :])


@lowers("native_batch_norm.default")
def batch_norm(builder: Builder, node: Node) -> None:
    if node.arguments["training"] is False:
        return _eval_batch_norm(builder, node)
    value = builder.value(node.arguments["input"])
    found = loops_over(value.shape, set(range(value.rank)) - {1}, keep=True)
    return _normalize(builder, node, found, (found.position[1],))


def _eval_batch_norm(builder: Builder, node: Node) -> None:
    """Adds the pointwise kernel of a batch normalization in evaluation mode, which uses the module's running
    mean and variance."""
    value = builder.value(node.arguments["input"])
    mean, variance = (builder.value(node.arguments[name]) for name in ("running_mean", "running_var"))
    eps = to_kind(as_expression(node.arguments["eps"]), "real")

    def make(position: Position) -> Expression:
        channel = (position[1],)
        scale = operation("rsqrt", operation("add", variance.at(channel), eps))
        result = operation("mul", operation("sub", value.at(position), mean.at(channel)), scale)
        return _affine(builder, node, result, channel)

    builder.pointwise(node, make)


@lowers("native_group_norm.default")
def group_norm(builder: Builder, node: Node) -> None:
    """Adds the kernel of the group normalization `node` to `builder`. Mean and variance are computed for each
    image and group of channels, over the pixels of all channels of the group."""
    value = builder.value(node.arguments["input"])
    groups: Index = node.arguments["group"]
    each = indices.divide(value.shape[1], groups)
    axes = (Axis("image", value.shape[0]), Axis("group", groups))
    reduced = [Axis("member", each)]
    reduced += [Axis(f"r{place}", value.shape[place]) for place in range(2, value.rank)]
    channel = indices.add(indices.multiply(axes[1].index, each), reduced[0].index)
    position = (axes[0].index, channel, *(axis.index for axis in reduced[1:]))
    found = Loops(axes, tuple(reduced), position, (ZERO,))
    _normalize(builder, node, found, (channel,))
