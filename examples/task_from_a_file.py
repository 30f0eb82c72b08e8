"""What is derived from a file with a module: signature, workloads, floor. Seconds; nothing is compiled.

python examples/task_from_a_file.py [FILE]

`kernelblaster optimize examples/row_scale.py` makes it faster.
"""

import sys
from pathlib import Path

import kernelblaster as kb
from kernelblaster.tasks.fitness import fitness_of
from kernelblaster.tasks.floor import floor_of
from kernelblaster.tasks.header import declaration


def main(file: str) -> None:
    task = kb.load_task(file)
    print(declaration(task.signature, Path(file).name))  # what a candidate must define
    for workload in task.workloads:
        print(f"{workload.name:8} {workload.sizes}")
    floor = floor_of(task)
    print(f"any implementation moves {floor.bytes / 1e6:.0f} MB")
    fitness = fitness_of(task)
    print("fit to be scored" if fitness.fit else "; ".join(fitness.problems))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(Path(__file__).parent / "row_scale.py"))
