"""What a crashed or hung candidate costs the one after it.

KERNELBLASTER_CALL_LIMIT=3 python benchmarks/recovery.py [--out results/recovery.md]
"""

import argparse
import statistics
import time
from pathlib import Path

from publish import keep, publish

from kernelblaster.api import DeviceJudge, open_device
from kernelblaster.settings import settings
from kernelblaster.testing.corpus import CORRECT, ROOT, Corpus

GOOD = ROOT / "tests" / "exploits" / "honest" / "max_pool1d_naive.cu"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--device", default="cuda", choices=("cuda", "emulated"), help="emulated: to try this"
    )
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    corpus = Corpus()
    good = corpus.read(GOOD)
    device = open_device(arguments.device)
    judge = DeviceJudge(device)

    def timed(job) -> tuple[float, str]:  # type: ignore[no-untyped-def]
        start = time.perf_counter()
        outcome = judge.evaluate(*job).outcome
        return time.perf_counter() - start, outcome.kind

    timed(good)
    alone_s = statistics.median(timed(good)[0] for _ in range(7))
    limit_s = settings().call_limit_s
    lines = [
        f"# After a bad candidate, on {device.name}",
        "",
        f"A good candidate alone takes {alone_s:.2f} s (median of 7).",
        f"The limit for one call is {limit_s:g} s.",
        "",
        "| bad candidate | outcome | took s | the good one after it s | cost beyond the limit s |",
        "|---|---|---|---|---|",
    ]
    for file in sorted((ROOT / "tests" / "exploits" / "cheats").glob("23_*.cu")):
        job = corpus.read(file)
        judge.evaluate(*job)
        bad_s, kind = timed(job)
        after_s, after = timed(good)
        if after not in CORRECT:
            kind = f"{kind}; then the good one was {after}"
        spent = bad_s - (limit_s if kind.startswith("TimedOut") else 0.0)
        cost = max(0.0, spent) + after_s - alone_s
        lines.append(f"| {file.stem} | {kind} | {bad_s:.2f} | {after_s:.2f} | {cost:.2f} |")
        print(lines[-1], flush=True)
        keep(lines, arguments.out)
    judge.close()
    device.close()
    publish(lines, arguments.out)


if __name__ == "__main__":
    main()
