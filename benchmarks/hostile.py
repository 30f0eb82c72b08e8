"""Hostile host code, and a key that it must not find: the corpus's cheats that attack the judge's process.

python benchmarks/hostile.py [--rows 19,20,21,22,23,24,25,26,27,28,29] [--out results/hostile.md]

Every one must end with a verdict, within the limits; the planted key may appear in no evaluation, in nothing
that was printed, and in no file of the cache.
"""

import os

KEY = "sk-planted-5f0d2c7b91"
os.environ["OPENAI_API_KEY"] = KEY

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from kernelblaster.settings import settings

CACHE = tempfile.mkdtemp(prefix="kernelblaster-hostile-")
for built in ("native", "ptx"):  # a minute to make, and the same for all
    (settings().cache / built).mkdir(parents=True, exist_ok=True)
    (Path(CACHE) / built).symlink_to(settings().cache / built)
os.environ["KERNELBLASTER_CACHE"] = CACHE

from kernelblaster.api import open_judge
from kernelblaster.errors import KernelBlasterError
from kernelblaster.testing.corpus import ROOT, Corpus, metadata

ROWS = "19,20,21,22,23,24,25,26,27,28,29"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default=ROWS)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    files = sorted((ROOT / "tests" / "exploits" / "cheats").glob("*.cu"))
    files = [f for f in files if metadata(f.read_text())["row"] in arguments.rows.split(",")]
    corpus = Corpus()
    outcomes: Counter[str] = Counter()
    slowest, leaked, accepted = 0.0, [], []
    with open_judge("emulated") as judge:
        for file in files:
            start = time.monotonic()
            try:
                evaluation = judge.evaluate(*corpus.read(file))
                kind, told = evaluation.outcome.kind, evaluation.model_dump_json()
            except KernelBlasterError as error:
                kind, told = "error", str(error)
            seconds = time.monotonic() - start
            slowest = max(slowest, seconds)
            outcomes[kind] += 1
            leaked += [file.stem] if KEY in told else []
            accepted += [file.stem] if kind == "Accepted" else []
            print(f"{file.stem} {kind} {seconds:.1f} s", flush=True)
    kept = [p for p in Path(CACHE).rglob("*") if p.is_file() and KEY.encode() in p.read_bytes()]
    lines = ["# Hostile host code on the emulated device", ""]
    lines += [
        f"{len(files)} candidates: " + ", ".join(f"{n} {kind}" for kind, n in outcomes.most_common()) + "."
    ]
    lines += [
        f"The slowest took {slowest:.0f} s. The planted key was found in {len(leaked)} evaluations and "
    ]
    lines[-1] += f"{len(kept)} files. Accepted: {', '.join(accepted) or 'none'}."
    print("\n".join(lines))
    if arguments.out:
        arguments.out.write_text("\n".join(lines) + "\n")
    return 1 if leaked or kept or outcomes["error"] else 0


if __name__ == "__main__":
    sys.exit(main())
