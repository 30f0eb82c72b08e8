"""Turns a graph of PyTorch operators into the initial plan: one naive kernel for each operator. Operators
that are only views (such as permute) need no kernel; they become index arithmetic."""

import importlib
import pkgutil

from kernelblaster.policies.expert import operators
from kernelblaster.policies.expert.builder import LOWERINGS, Builder, axes_of
from kernelblaster.policies.expert.graph import Graph, Reference, UncoveredOperators
from kernelblaster.policies.expert.kernel import Kernel, Store
from kernelblaster.policies.expert.plan import Plan


def initial_plan(graph: Graph) -> Plan:
    """Returns the plan with one naive kernel for each operator of the graph. Views and constant tensors need
    no kernel. Raises UncoveredOperators, which names them, if the folder operators/ has no function for some
    operators."""
    for module in pkgutil.iter_modules(operators.__path__):
        importlib.import_module(f"{operators.__name__}.{module.name}")
    missing = dict.fromkeys(node.operator for node in graph.nodes if node.operator not in LOWERINGS)
    if missing:
        raise UncoveredOperators(tuple(missing))
    builder = Builder(graph)
    for node in graph.nodes:
        LOWERINGS[node.operator](builder, node)
    for place, reference in enumerate(graph.outputs):
        _finish(builder, place, reference)
    return Plan(graph.signature, builder.buffers, tuple(builder.kernels), graph.sizes, graph)


def _finish(builder: Builder, place: int, reference: Reference) -> None:
    """Adds a kernel that copies the tensor `reference` into the memory of output number `place`, if no kernel
    writes it there: where it is only a view, an input or another output."""
    name = builder.graph.signature.outputs[place].name
    value = builder.value(reference)
    if value.buffer == name:
        return
    axes = axes_of(builder.buffers[name].shape)
    position = tuple(axis.index for axis in axes)
    store = Store(name, position, value.at(position))
    builder.kernels.append(Kernel(f"copy_{name}_kernel", axes, (store,)))
