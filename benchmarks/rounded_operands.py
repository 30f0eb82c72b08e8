"""Whether floor, prompts, modelled baseline and verdict agree on TF32, for every task of a suite.

    python benchmarks/rounded_operands.py [SUITE] [--device cuda|emulated] [--out FILE]

For each task: the products that the judge lets candidates compute on TF32 operands (measured on a GPU), those
of the model of eager PyTorch, and what prompts say. Exits with 1 if they differ for some task.
"""

import argparse
import sys
from pathlib import Path

from kernelblaster.errors import KernelBlasterError
from kernelblaster.judge.operand_rounding import expected_rounding
from kernelblaster.opening import open_judge
from kernelblaster.policies.llm.reference_words import precision
from kernelblaster.tasks.catalog import find, load_task


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("suite", nargs="?", default="core")
    parser.add_argument("--device", choices=("auto", "cuda", "emulated"), default="auto")
    parser.add_argument("--out", type=Path, help="write the table to this file too")
    options = parser.parse_args()
    lines, differing, unjudged = ["| task | judge and floor | model | prompts |", "|---|---|---|---|"], 0, 0
    with open_judge(options.device) as judge:
        title = judge.device.name
        for name, _ in find(options.suite):
            task = load_task(name)
            expected, words = expected_rounding(task), precision(task)
            try:
                judged: str = judge.prepare(task)[1].rounded
            except KernelBlasterError as error:
                judged, unjudged = str(error), unjudged + 1
            prompted = "convolutions" if "except" in words else "none"
            same = judged == expected == prompted
            differing += not same
            if not same or expected != "none":
                lines.append(f"| {name} | {judged} | {expected} | {prompted} |")
                print(lines[-1], flush=True)
    told = f"{differing} tasks differ ({unjudged} could not be prepared); those without TF32 are left out."
    print(told)
    if options.out:
        options.out.write_text(f"# Who rounds to TF32\n\nOn {title}. {told}\n\n" + "\n".join(lines) + "\n")
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
