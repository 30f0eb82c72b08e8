"""Tunable constants: multiplies a number that a kernel uses by name, such as the edge of a tile, by 2, 1/2, 4
and 1/4. Numbers that are only the size of a one-dimensional block are left to `block_shape`."""

import re
from collections.abc import Iterator

from kernelblaster.policies.rewrites.launch_shape import block_of, constants, numbers
from kernelblaster.policies.rewrites.own_source import OwnSource
from kernelblaster.tasks.cuda_source import Function, replaced, text, walk

LEAST, MOST = 2, 1024
FACTORS = (2.0, 0.5, 4.0, 0.25)


def apply(source: OwnSource, kernel: Function) -> Iterator[OwnSource]:
    """Yields one source for each new value (2, 1/2, 4 and 1/4 times the old one, if whole and from 2 to 1024)
    of each named constant that the kernel uses, and of each number among the template arguments of its
    launches. Nothing if there are no such numbers."""
    tree = source.tree
    blocks = [block_of(tree, launch) or [] for launch in tree.launches_of(kernel.name)]
    alone = {block[0].node.start_byte for block in blocks if len(block) == 1}
    used = set(re.findall(r"\w+", text(kernel.body)))
    for constant in constants(tree):
        if constant.name in used and constant.node.start_byte not in alone:
            for value in _others(constant.value):
                yield source.edited([replaced(constant.node, str(value))])
    sizes = {block[0].value for block in blocks if len(block) == 1}
    for launch in tree.launches_of(kernel.name):
        for node in walk(launch.node, "template_argument_list"):
            for number in walk(node, "number_literal"):
                if text(number).isdigit() and int(text(number)) not in sizes:
                    old = int(text(number))
                    for value in _others(old):
                        yield source.edited(
                            list(numbers(launch.caller.body, {old: value, old - 1: value - 1}))
                        )


def _others(value: int) -> Iterator[int]:
    """Other values to try for a constant: `value` times each of FACTORS, as far as that is a whole number
    from LEAST to MOST."""
    for factor in FACTORS:
        other = int(value * factor)
        if LEAST <= other <= MOST and other == value * factor:
            yield other
