"""Algebraic simplification of a graph of operators, so that it computes the same with less work.

The rules (rules/) are tried on every node until none applies any more.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from kernelblaster.policies.expert import rules
from kernelblaster.policies.expert.graph import Graph, Node, Reference, needed
from kernelblaster.policies.expert.patterns import Rule


def simplify(graph: Graph) -> Graph:
    """Returns the graph after the simplification rules (rules/) were applied until none applies any more. It
    computes the same with less work."""
    known = _load_rules()
    while True:
        for node in graph.nodes:
            found = next((f for rule in known if (f := rule(graph, node)) is not None), None)
            if found is not None:
                graph = _replaced(graph, node, found)
                break
        else:
            return graph


@cache
def _load_rules() -> tuple[Rule, ...]:
    """All rules of algebraic simplification, in the order in which they are tried: those that the modules of
    rules/ list in RULES."""
    names = [found.name for found in pkgutil.iter_modules(rules.__path__)]
    modules = [importlib.import_module(f"{rules.__name__}.{name}") for name in names]
    return tuple(rule for module in modules for rule in module.RULES)


def _replaced(graph: Graph, node: Node, found: tuple[Node, ...] | Reference) -> Graph:
    """The graph with `node` replaced by `found`, new nodes or a reference to an existing result, and without
    the nodes that nothing needs any more."""
    if isinstance(found, tuple):
        nodes = [new for other in graph.nodes for new in (found if other is node else (other,))]
        outputs = graph.outputs
    else:
        old = Reference(node.name)
        nodes = [
            replace(other, arguments=_redirected(other.arguments, old, found))
            for other in graph.nodes
            if other is not node
        ]
        outputs = tuple(found if reference == old else reference for reference in graph.outputs)
    return replace(graph, nodes=needed(nodes, outputs), outputs=outputs)


def _redirected(argument: Any, old: Reference, new: Reference) -> Any:
    if isinstance(argument, Mapping):
        return {name: _redirected(value, old, new) for name, value in argument.items()}
    if isinstance(argument, tuple):
        return tuple(_redirected(value, old, new) for value in argument)
    return new if argument == old else argument
