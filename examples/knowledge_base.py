"""Read a knowledge base, teach it, and merge another one into it. A second; nothing is compiled.

python examples/knowledge_base.py
"""

import tempfile
from math import log
from pathlib import Path

from kernelblaster.knowledge import KnowledgeBase, Provenance, plant

STATE, TECHNIQUE = "memory-bandwidth", "vectorized_memory_access"


def expected(knowledge: KnowledgeBase) -> float:
    """The speedup that is expected of the technique on an H100."""
    options = knowledge.optimizations(STATE, "sm_90a")
    return next(o.optimization.predicted for o in options if o.optimization.technique == TECHNIQUE)


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        KnowledgeBase(Path(folder) / "mine.db") as mine,
        KnowledgeBase(Path(folder) / "theirs.db") as theirs,
    ):
        plant(mine)  # the shipped priors
        plant(theirs)
        print(f"{len(mine.content().living)} states; expected of {TECHNIQUE}: {expected(mine):.2f}x")

        seen = Provenance(run="their-run", gpu="NVIDIA H100", architecture="sm_90a")
        theirs.observe(STATE, TECHNIQUE, log(1.6), seen)  # a log speedup, or a failure: "Incorrect", ...
        print(f"they saw 1.60x, and expect {expected(theirs):.2f}x")

        print(f"merged: {mine.merge(theirs)} new events, now {expected(mine):.2f}x")
        print(f"merged again: {mine.merge(theirs)} new events")
        for event in mine.log()[-1:]:
            print(f"version {event.version}: {event.change.kind}, by {event.provenance.run}")


if __name__ == "__main__":
    main()
