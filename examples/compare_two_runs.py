"""Two searches with different seeds, side by side: about twenty seconds on the emulated device. Or two runs
that are there already:

python examples/compare_two_runs.py
python examples/compare_two_runs.py RUN_FOLDER RUN_FOLDER
"""

import sys
import tempfile
from pathlib import Path

import kernelblaster as kb
from kernelblaster.store.comparison import compare
from kernelblaster.store.history import History
from kernelblaster.store.run import open_run

TASK = Path(__file__).parent / "row_scale.py"


def searched(root: Path, seed: int) -> Path:
    """A run of four candidates, with a knowledge base of its own."""
    budget = kb.Search(rollouts=1, choices=1, evaluations=4, seed=seed)
    kept = root / f"{seed}.db"
    return kb.optimize(TASK, device="emulated", budget=budget, knowledge=kept, runs=root / "runs").run


def show(one: Path, other: Path) -> None:
    with open_run(one.parent, one) as a, open_run(other.parent, other) as b:
        found = compare(History(a), History(b))
    for name, pair in found["settings"].items():
        print(f"{name}: {pair[0]} and {pair[1]}")
    for best in found["best"]:
        way = ", ".join(best["applied"]) or "nothing"
        needed = f"{best['found_after']} of {best['evaluations']} candidates"
        print(f"{best['speedup']:.2f}x after {needed}, by {way}")
    print(f"the two sources differ in {found['source'].count(chr(10))} lines")


def main(folders: list[str]) -> None:
    if folders:
        show(*map(Path, folders))
        return
    print("on the emulated device: times are modelled")
    with tempfile.TemporaryDirectory() as folder:
        show(searched(Path(folder), 1), searched(Path(folder), 2))


if __name__ == "__main__":
    main(sys.argv[1:])
