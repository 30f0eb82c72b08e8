"""A search of your own: make candidates however you like, let the judge decide. Ten seconds, no GPU needed.

python examples/custom_loop.py
"""

from pathlib import Path

import kernelblaster as kb
from kernelblaster.records.outcome import CORRECT

SOURCE = (Path(__file__).parent / "softmax.cu").read_text()


def main() -> None:
    task = kb.load_task("core/level1/softmax")
    best = None
    with kb.open_judge("emulated") as judge:  # one judge for all: the device is opened once
        for threads in (128, 256, 1024):
            source = SOURCE.replace("#define THREADS 512", f"#define THREADS {threads}")
            evaluation = judge.evaluate(task, kb.Candidate(source=source, origin=f"{threads} threads"))
            outcome = evaluation.outcome
            if not isinstance(outcome, CORRECT):  # Incorrect, CompileFailed, Rejected, ...: never a number
                print(f"{threads:5} threads  {outcome.kind}")
                continue
            print(f"{threads:5} threads  {outcome.speedup.estimate:.2f}x over eager, modelled")
            if best is None or outcome.speedup.estimate > best[0]:
                best = outcome.speedup.estimate, threads
    if best is not None:
        print(f"best: {best[1]} threads")


if __name__ == "__main__":
    main()
