"""Rebuilds the problems of a public suite as task files, from facts about them, and tells whether they load.

    python benchmarks/rebuild.py FACTS.jsonl FOLDER [--literals] [--training] [--check] [PROBLEM ...]

Each line of FACTS.jsonl is a problem: the shapes of its inputs, and every operator that it runs with its
shapes and how often (rebuilt/facts.py). FOLDER gets a file in KernelBench's format for each, whose operators
are the same: those that differ are named. With --check, every file is loaded as a task, checked for fitness
and captured, each with the processor time that it took; --out writes that as a table. --literals writes sizes
where they are used instead of as constants of the file; --training leaves modules in training mode (in
KernelBench they are; the facts were taken in inference mode, where operators are compared).
"""

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from rebuilt.chains import chain_source
from rebuilt.facts import Problem, read_problems
from rebuilt.networks import network
from rebuilt.source import Source
from rebuilt.traced import differences

from kernelblaster.errors import BadTask
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.graph import UncoveredOperators
from kernelblaster.policies.expert.unify import NotUniform
from kernelblaster.tasks.catalog import load_task
from kernelblaster.tasks.fitness import fitness_of


def rebuilt(problem: Problem, *, literals: bool = False, training: bool = False) -> str:
    """The text of a task file whose module runs the problem's operators."""
    kind = network(problem)
    if kind is not None:
        return kind(problem, training)
    return chain_source(problem, Source(literals=literals, training=training))


@dataclass(frozen=True)
class Checked:
    """What became of one file: why it is refused, or whether it is fit; how much was captured, or why not;
    and the processor seconds of both."""

    refused: str
    fitness: str
    captured: str
    load_s: float
    capture_s: float


def checked(path: Path) -> Checked:
    """Loads a task, checks its fitness on the host, and captures it."""
    start = time.process_time()
    try:
        task = load_task(str(path))
    except BadTask as error:
        return Checked(str(error), "", "", time.process_time() - start, 0.0)
    loaded = time.process_time()
    fitness = "; ".join(fitness_of(task).problems) if task.small else "too large to run on the host"
    begun = time.process_time()
    try:
        captured = f"{len(capture(task).nodes)} operators"
    except (NotUniform, UncoveredOperators) as error:
        captured = str(error).partition(" A language model")[0].removeprefix(f"{task.name}: ")
    return Checked("", fitness or "fit", captured, loaded - start, time.process_time() - begun)


HEAD = "| problem | loads in s | fit | captured | in s |\n|---|---|---|---|---|"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("facts", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("problems", nargs="*", help="only these, as level2/7")
    parser.add_argument("--literals", action="store_true")
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--out", type=Path, help="write what --check found as a table to this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    written, unequal, refused = [], 0, 0
    for problem in read_problems(options.facts):
        if options.problems and problem.name not in options.problems:
            continue
        text = rebuilt(problem, literals=options.literals, training=options.training)
        path = options.folder / f"{problem.name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        differing = [] if options.training else differences(problem, text)
        unequal += bool(differing)
        line = f"| {problem.name} |"
        if options.check:
            found = checked(path)
            refused += bool(found.refused)
            line += f" {found.load_s:.1f} | {found.refused or found.fitness} |"
            line += f" {found.captured} | {found.capture_s:.1f} |"
        written.append(line)
        print(line, *differing, sep="\n    ", flush=True)
    total = f"{len(written)} problems: {unequal} with other operators than the facts say, {refused} refused."
    print(total)
    if options.out:
        way = "literals" if options.literals else "constants"
        mode = "training" if options.training else "inference"
        title = f"# Problems of a public suite, rebuilt from facts about them\n\nSizes as {way}, {mode} mode."
        options.out.write_text("\n".join([f"{title} {total}\n", HEAD, *written]) + "\n")
    sys.exit(1 if unequal or refused else 0)


if __name__ == "__main__":
    main()
