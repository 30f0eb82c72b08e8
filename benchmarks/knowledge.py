"""How fast the knowledge base answers and learns, with 10,000 optimizations.

python benchmarks/knowledge.py [--out results/knowledge.md]
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from publish import publish

from kernelblaster.knowledge import KnowledgeBase, Provenance
from kernelblaster.records import State
from kernelblaster.testing.large_knowledge import A_STATE, grow

OPTIMIZATIONS = 10_000
HERE = Provenance(architecture="sm_90a", family="rows")


def timed_ms(action: Callable[[int], object], times: int) -> tuple[float, float]:
    """The median and the 99th percentile, in milliseconds."""
    taken = []
    for place in range(times):
        start = time.perf_counter()
        action(place)
        taken.append(1e3 * (time.perf_counter() - start))
    return statistics.median(taken), sorted(taken)[int(0.99 * (times - 1))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kb.db"
        kb = KnowledgeBase(path)
        names = grow(kb, OPTIMIZATIONS, observations=3, seed=0)
        applied = ("technique_0", "technique_1")

        def retrieve(place: int) -> object:
            return kb.optimizations(names[place % len(names)], "sm_90a", applied)

        near = State(name="new", primary="latency", secondary=("grown_7",), metrics={"busy": 0.4})
        rows = {
            "open and read everything": timed_ms(lambda _: KnowledgeBase(path).content(), 5),
            f"retrieve a state's {A_STATE} optimizations, first time": timed_ms(retrieve, len(names)),
            f"retrieve a state's {A_STATE} optimizations, again": timed_ms(retrieve, 500),
            "match a state": timed_ms(lambda _: kb.match(near), 200),
            "observe": timed_ms(
                lambda place: kb.observe(names[place % len(names)], "technique_3", 0.1, HERE), 500
            ),
        }
    lines = [
        "# The knowledge base",
        "",
        f"SQLite, {OPTIMIZATIONS} optimizations in {len(names)} states, evidence from four architectures.",
        "",
        "| what | median ms | 99th percentile ms |",
        "|---|---|---|",
        *(f"| {what} | {median:.2f} | {high:.2f} |" for what, (median, high) in rows.items()),
    ]
    publish(lines, arguments.out)


if __name__ == "__main__":
    main()
