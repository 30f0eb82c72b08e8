"""Which technique applies to which kind of kernel, as a table for docs/expert.md.

python -m kernelblaster.policies.expert.technique_table
"""

from typing import get_args

from kernelblaster.policies.expert.schedule import ColumnReduction, Packing, Pointwise, Product, RowReduction
from kernelblaster.policies.expert.technique_order import in_order
from kernelblaster.policies.expert.techniques import load_techniques

KINDS = {
    "pointwise": Pointwise,
    "along memory": RowReduction,
    "across memory": ColumnReduction,
    "product": Product,
}
ALL = "all"


def technique_table() -> str:
    """A row for each technique, in the order of application, a column for each kind of kernel; the cells name
    the schedules that it applies to."""
    known = load_techniques()
    lines = [f"| technique | {' | '.join(KINDS)} | packing |", f"|{'---|' * (len(KINDS) + 2)}"]
    for name in in_order(known):
        types = known[name].applies_to
        cells = [_cell(get_args(kind), types) for kind in KINDS.values()]
        cells.append(_cell((Packing,), types))
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(kinds: tuple[type, ...], applies_to: tuple[type, ...]) -> str:
    found = [kind.__name__ for kind in kinds if kind in applies_to]
    return ALL if len(found) == len(kinds) else ", ".join(found)


if __name__ == "__main__":
    print(technique_table())
