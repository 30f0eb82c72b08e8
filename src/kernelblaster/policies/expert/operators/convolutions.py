"""Turns convolutions of every kind (grouped, dilated, transposed) into kernels (lowers them). Each result is
a sum over input channels and the elements of a window: elements of the operand times elements of the
filter."""

from kernelblaster.policies.expert import index as indices
from kernelblaster.policies.expert.axis import Axis
from kernelblaster.policies.expert.builder import Builder, axes_of, lowers
from kernelblaster.policies.expert.combines.arithmetic import SUM
from kernelblaster.policies.expert.expression import Expression, Reduced, operation, real
from kernelblaster.policies.expert.graph import Node
from kernelblaster.policies.expert.index import ONE, ZERO, Index
from kernelblaster.policies.expert.kernel import Stage
from kernelblaster.policies.expert.operators.views import guarded
from kernelblaster.policies.expert.operators.windows import (
    Sliding,
    Window,
    for_each,
    known,
    over_windows,
    transposed_window,
    window,
)
from kernelblaster.policies.expert.schedules.columns import ThreadPerColumn
from kernelblaster.policies.expert.schedules.products import ThreadPerResult


@lowers("convolution.default")
def convolution(builder: Builder, node: Node) -> None:
    """Adds the kernel of the convolution `node` to `builder`. Each group of channels is convolved with its
    own filters. If groups have a single input channel (depthwise), the kernel gets the layout of a reduction
    over windows, otherwise that of a matrix product."""
    source, weight = builder.value(node.arguments["input"]), builder.value(node.arguments["weight"])
    image, channel, *places = (axis.index for axis in axes_of(node.results[0].shape))
    windows = _windows(builder, node, tuple(places))
    groups: Index = node.arguments["groups"]
    member = Axis("member", known(builder, _share(builder, source.shape[1], groups)))
    together = _share(builder, node.results[0].shape[1], groups)
    alone = builder.is_one(groups)
    group = ZERO if alone else indices.divide(channel, together)
    own = indices.add(indices.multiply(group, member.extent), member.index)
    if node.arguments["transposed"]:
        filters = (own, channel if alone else indices.remainder(channel, together))
    else:
        filters = (channel, member.index)
    element = source.at((image, own, *(found.place for found in windows)))
    factor = weight.at((*filters, *(found.tap for found in windows)))
    in_filter = [test for found in windows for test in found.in_filter]
    in_operand = [test for found in windows for test in found.in_operand]
    body = operation(
        "mul",
        guarded([*in_filter, *in_operand], element, real(0)),
        guarded(in_filter, factor, real(0)),
    )
    value: Expression = Reduced("total", "real")
    if node.arguments["bias"] is not None:
        value = operation("add", value, builder.value(node.arguments["bias"]).at((channel,)))
    loops = (member, *(found.axis for found in windows))
    single = ThreadPerColumn if member.once else ThreadPerResult
    over_windows(builder, node, single, Stage("total", SUM, body, loops), value)


def _windows(builder: Builder, node: Node, places: tuple[Index, ...]) -> list[Window]:
    source, weight = (builder.value(node.arguments[name]).shape[2:] for name in ("input", "weight"))
    names = ("stride", "padding", "dilation")
    steps = zip(*(for_each(node.arguments[name], len(places)) for name in names), strict=True)
    make = transposed_window if node.arguments["transposed"] else window
    return [
        make(builder, f"w{dim}", place, Sliding(extent, known(builder, taps), *step))
        for dim, (place, extent, taps, step) in enumerate(zip(places, source, weight, steps, strict=True))
    ]


def _share(builder: Builder, channels: Index, groups: Index) -> Index:
    """The number of `channels` in each of `groups` groups, as a symbolic index."""
    return ONE if builder.same(channels, groups) else indices.divide(channels, groups)
