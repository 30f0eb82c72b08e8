"""Turns scans along a dimension into kernels (lowers them): cumsum, cumprod, cummax, cummin and
logcumsumexp."""

from kernelblaster.policies.expert.builder import Builder, kernel_name, kind_of, lowers
from kernelblaster.policies.expert.combines.arithmetic import MAX, MIN, PRODUCT, SUM
from kernelblaster.policies.expert.combines.combine import Combine
from kernelblaster.policies.expert.combines.log_add_exp import LOG_ADD_EXP
from kernelblaster.policies.expert.combines.placed import LAST_ARGMAX, LAST_ARGMIN
from kernelblaster.policies.expert.combines.prefix import Prefix
from kernelblaster.policies.expert.expression import Reduced, to_kind
from kernelblaster.policies.expert.graph import Node
from kernelblaster.policies.expert.kernel import Kernel, Stage, Store
from kernelblaster.policies.expert.operators.reductions import loops_over
from kernelblaster.policies.expert.schedules.scans import ThreadPerScan

COMBINES: dict[str, tuple[Combine, ...]] = {
    "cumsum": (SUM,),
    "cumprod": (PRODUCT,),
    "logcumsumexp": (LOG_ADD_EXP,),
    "cummax": (MAX, LAST_ARGMAX),
    "cummin": (MIN, LAST_ARGMIN),
}


@lowers(*(f"{name}.default" for name in COMBINES))
def scan(builder: Builder, node: Node) -> None:
    """Adds the kernel of the scan `node` (a cumulative sum, product, maximum, minimum or logsumexp) to
    `builder`. For a maximum or minimum it also stores the index of that element; of equal elements it is the
    last one's."""
    value = builder.value(node.arguments["self"])
    found = loops_over(value.shape, {node.arguments["dim"].value % max(value.rank, 1)}, keep=True)
    stages, stores = [], []
    for result, combine in enumerate(COMBINES[node.operator.split(".")[0]]):
        prefix = Prefix(combine)
        name = "place" if combine.placed else "running"
        element = value.at(found.position)
        body = element if combine.placed else to_kind(element, kind_of(node.results[result].dtype))
        stages.append(Stage(name, prefix, body, found.reduced))
        kind = prefix.result_kind(body.kind)
        stores.append(Store(builder.buffer(node, result), found.position, Reduced(name, kind), found.reduced))
    kernel = Kernel(kernel_name(node), found.axes, tuple(stores), tuple(stages), ThreadPerScan())
    builder.kernels.append(kernel)
