"""Does a change of the code change a search? What is tried, in order, for the same seeds.

python benchmarks/same_search.py --out before.json        in one checkout
python benchmarks/same_search.py --compare before.json    in the other

Searches on the emulated device with an empty knowledge base that all tasks teach in turn. Only the public
interface is used, so that other versions can run this file.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import kernelblaster as kb

TASKS = (
    "core/level1/softmax",
    "core/level1/layer_norm",
    "core/level1/sum_rows",
    "core/level1/gelu",
    "core/level1/rms_norm",
    "core/level1/max_rows",
    "core/level1/l2_norm",
    "core/level1/relu",
    "core/level2/scale_mask_softmax",
    "core/level1/cross_entropy",
)


def tried(task: str, seed: int, candidates: int, folder: Path) -> list[list[Any]]:
    """Each step of a search: technique, state, the code that it gave, and the kind of its failure. Modelled
    times are left out: they vary by a thousandth with the addresses that are drawn."""
    search = kb.Search(evaluations=candidates, seed=seed)
    result = kb.optimize(
        task, device="emulated", budget=search, knowledge=folder / "kb.db", runs=folder / "runs"
    )
    steps = (step.model_dump(mode="json") for step in result.trajectory)
    return [
        [step["technique"], step["state"], step["child"], step["result"] if _failed(step) else None]
        for step in steps
    ]


def _failed(step: dict[str, Any]) -> bool:
    return isinstance(step["result"], str)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--candidates", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        searches = {}
        for task in TASKS:
            searches[task] = tried(task, arguments.seed, arguments.candidates, Path(folder))
            print(f"{task}: {len(searches[task])} steps", file=sys.stderr)
    if arguments.out:
        arguments.out.write_text(json.dumps(searches, indent=1) + "\n")
    if not arguments.compare:
        return 0
    before = json.loads(arguments.compare.read_text())
    differing = [task for task in searches if searches[task] != before.get(task)]
    steps = sum(len(one) for one in searches.values())
    print(f"{len(searches)} tasks, {steps} steps; other than before: {', '.join(differing) or 'none'}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
