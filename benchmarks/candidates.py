"""Hand-written candidates of many families: each must be found correct, and each with its planted
error must be caught.

    python benchmarks/candidates.py [--out results/candidates.md]
"""

import argparse
import sys
from pathlib import Path

from loaded_corpus import loaded_corpus

from kernelblaster.api import DeviceJudge, open_device
from kernelblaster.testing.corpus import CORRECT, ROOT, metadata


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    files = sorted((ROOT / "tests" / "candidates").glob("*.cu"))
    corpus = loaded_corpus(files)
    jobs = []
    for file in files:
        task, candidate = corpus.read(file)
        jobs += [(task, candidate), (task, candidate.with_defines({"PLANTED_ERROR": 1}))]
    device = open_device("cuda")
    judge = DeviceJudge(device)
    found = list(judge.evaluate_many(jobs))
    judge.close()
    device.close()
    lines = [
        f"# Hand-written candidates on {device.name}",
        "",
        "",
        "| candidate | task | outcome | us | wall us | eager us | speedup | planted error | caught as |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    wrong = []
    for file, good, planted in zip(files, found[::2], found[1::2], strict=True):
        meta = metadata(file.read_text())
        right = good.outcome.kind in CORRECT
        caught = planted.outcome.kind not in CORRECT
        timing = good.timing
        numbers = ["", "", "", ""]
        if timing:
            s = timing.speedup
            numbers = [f"{timing.candidate_us:.0f}", f"{timing.candidate_wall_us:.0f}"]
            numbers.append(f"{timing.baseline_us:.0f}")
            numbers.append(f"{s.estimate:.3f} ({s.low:.3f} to {s.high:.3f})")
        cells = [
            file.stem,
            meta["task"],
            good.outcome.kind,
            *numbers,
            meta["plant"],
            planted.outcome.kind,
        ]
        lines.append("| " + " | ".join(cells) + " |")
        if not right:
            wrong.append(
                f"{file.stem}: {good.outcome.kind} {getattr(good.outcome, 'reason', '')} "
                f"{getattr(good.outcome, 'evidence', getattr(good.outcome, 'log', ''))[:500]}"
            )
        if not caught:
            wrong.append(f"{file.stem}: planted error not caught: {planted.outcome.kind}")
    lines[2] = f"{len(files)} candidates, {len(wrong)} wrong verdicts."
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n")
    print("\n".join(lines[2:]))
    for line in wrong:
        print("WRONG", line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
