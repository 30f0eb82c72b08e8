"""Kernels as users have them (benchmarks/own_cu), each optimized by the expert on the emulated device.

python benchmarks/own_cu.py [FILES] [--budget 6] [--out results/own-cu.md]

What a file does not show is asked for by the program; it is answered here as a user would, and the table
has the sentence. All share one knowledge base, so that later ones profit from earlier ones.
"""

import argparse
import tempfile
import time
from pathlib import Path

from publish import publish

from kernelblaster.api import load_task, open_searching
from kernelblaster.errors import KernelBlasterError
from kernelblaster.knowledge import KnowledgeBase, plant
from kernelblaster.optimize import optimize
from kernelblaster.plain_text import markdown
from kernelblaster.records.outcome import CORRECT
from kernelblaster.sessions.settings import Search
from kernelblaster.store.run import create_run
from kernelblaster.tasks.cuda_prepare import inferred_lines

FOLDER = Path(__file__).parent / "own_cu"
ANSWERS = {  # what replaces parts of the template
    "saxpy.cu": {"a = ?": "a = 2.5"},
    "gather.cu": {"// kernelblaster-task": "// size: vocabulary = 50000, small 50", "?": "vocabulary"},
    "half2_scale.cu": {
        "n = 2048, small 33": "n = 4194304, small 1000, fixed",
        "[?]": "[n]",
        "scale = ?": "scale = 1.5",
        "bias = ?": "bias = 0.25",
    },
    "stencil3d.cu": {"k = ?": "k = 0.1"},
}


def answered(file: Path, asked: str, folder: Path) -> Path:
    """The file with the template that was asked for, filled in."""
    lines = asked.partition("\n\n")[2]
    for question, answer in ANSWERS[file.name].items():
        lines = lines.replace(question, answer)
    copy = folder / file.name
    copy.write_text(f"{lines}\n{file.read_text()}")
    return copy


def row(file: Path, folder: Path, knowledge: KnowledgeBase, budget: int) -> str:
    """One line of the table."""
    asked = ""
    begun = time.monotonic()
    try:
        try:
            task = load_task(str(file))
            known = "inferred" if inferred_lines(task.source) else "declared"
        except KernelBlasterError as error:
            if file.name not in ANSWERS:
                raise
            asked = str(error)
            task = load_task(str(answered(file, asked, folder)))
            known = "asked for: " + asked.partition(": ")[2].partition(";")[0]
        with open_searching("emulated") as judge, create_run(folder / "runs") as run:
            found = optimize(task, judge, knowledge, run, Search(evaluations=budget))
    except KernelBlasterError as error:
        said = str(error).partition("\n")[0].replace(", for example:", ".").removeprefix(f"{file}: ")
        print(f"{file.name}: refused: {said}", flush=True)
        return f"| {file.name} | refused: {markdown(said)} | | | |"
    assert isinstance(found.evaluation.outcome, CORRECT)
    failed = sum(step.failure is not None for step in found.steps)
    techniques = ", ".join(found.applied) or "none: the original is the best"
    tried = f"{len(found.steps)}, {failed} refused" if failed else str(len(found.steps))
    speedup = f"{found.evaluation.outcome.speedup.estimate:.2f}x"
    print(f"{file.name}: {speedup}, {techniques}, {time.monotonic() - begun:.0f} s", flush=True)
    return f"| {file.name} | {known} | {speedup} | {techniques} | {tried} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--budget", type=int, default=6)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    files = [Path(name) for name in arguments.files] or sorted(FOLDER.glob("*.cu"))
    with tempfile.TemporaryDirectory() as made, KnowledgeBase(Path(made) / "kb.db") as knowledge:
        plant(knowledge)
        rows = [row(file, Path(made), knowledge, arguments.budget) for file in files]
    lines = [
        "# Own kernels, optimized without a model",
        "",
        f"`python benchmarks/own_cu.py`: {len(files)} files as users have them, with a launch function of",
        f"any name and argument order; {arguments.budget} candidates each, the original included; no model;",
        "on the emulated H200. The speedup is over the user's own kernel and **modelled**, not measured;",
        "primary sizes are the program's own where the file does not declare any.",
        "",
        "| file | tensors and sizes | best, modelled | techniques | steps |",
        "|---|---|---|---|---|",
        *rows,
        "",
        "The files were written beside the rewrites, so this is a check that they work and not a held-out",
        "measure. One run, one seed: the budget decides what is tried.",
    ]
    publish(lines, arguments.out)


if __name__ == "__main__":
    main()
