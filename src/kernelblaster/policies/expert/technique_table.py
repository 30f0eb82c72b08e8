"""Prints the table of docs/expert.md that tells which technique applies to which schedules (layouts of
kernels on the GPU).

python -m kernelblaster.policies.expert.technique_table
"""

from collections.abc import Sequence

from kernelblaster.policies.expert.schedules import all_schedules
from kernelblaster.policies.expert.technique_order import in_order
from kernelblaster.policies.expert.techniques import load_techniques

ALL = "all"
KINDS = ("pointwise", "along memory", "across memory", "product")  # which come first


def technique_table() -> str:
    """Returns a Markdown table of the schedules (layouts on the GPU) to which each technique applies. Rows
    are the techniques, in the order of application; columns are the kinds of kernels. A cell names the
    schedules of that kind, or says "all"; it is empty if the technique applies to none of them."""
    known = load_techniques()
    kinds: dict[str, list[type]] = {}
    for schedule in all_schedules():
        kinds.setdefault(schedule.kind, []).append(schedule)
    shown = [*KINDS, *(kind for kind in kinds if kind not in KINDS)]
    lines = [f"| technique | {' | '.join(shown)} |", f"|{'---|' * (len(shown) + 1)}"]
    for name in in_order(known):
        cells = [_cell(kinds[kind], known[name].applies_to) for kind in shown]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(kinds: Sequence[type], applies_to: tuple[type, ...]) -> str:
    found = [kind.__name__ for kind in kinds if kind in applies_to]
    return ALL if len(found) == len(kinds) else ", ".join(found)


if __name__ == "__main__":
    print(technique_table())
