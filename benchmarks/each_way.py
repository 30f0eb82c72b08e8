"""Every way in which a judged kernel is looked at, as its command: sweep, profile, sanitizer, filter, search,
export, proof.

    python benchmarks/each_way.py [--device auto] [--out PAGE.md]

One command after another, each in a process of its own, as a user would type it; a row says what it printed
and whether its exit code is the expected one. What a machine lacks (compute-sanitizer) is left out with the
reason. On an H200 about 90 s.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from publish import keep

from kernelblaster.testing.corpus import ROOT

SOFTMAX = "core/level1/softmax"
EXAMPLE = str(ROOT / "examples" / "softmax.cu")
CHEATS = ROOT / "tests" / "exploits" / "cheats"
ROWSUM = str(ROOT / "tests" / "exploits" / "tasks" / "rowsum.py")
CORRECT = (0, 1)  # faster, or correct and not faster
ALONE = ROOT / "benchmarks" / "exported_alone.py"


@dataclass(frozen=True)
class Way:
    """A command: its words after `kernelblaster`, the exit codes that are right, a word that its output must
    have, and a program that the machine must have."""

    what: str
    words: tuple[str, ...]
    codes: Sequence[int] = CORRECT
    says: str = ""
    needs: str | None = None


def ways(folder: Path) -> list[Way]:
    runs, proof = ("--runs", str(folder / "runs")), str(folder / "proof.json")
    racy = str(CHEATS / "15_missing_barrier.cu")
    judge = ("evaluate", SOFTMAX, EXAMPLE)
    return [
        Way("sweep", (*judge, "--sweep"), says="THREADS=1024"),
        Way("profile", (*judge, "--profile")),
        Way(
            "sanitizer, on a right kernel", (*judge, "--sanitize"), says="sanitize", needs="compute-sanitizer"
        ),
        Way("filter, on a race", ("evaluate", ROWSUM, racy, "--filter", "emulated"), codes=(3, 6)),
        Way("search", ("optimize", SOFTMAX, "--budget", "3", *runs)),
        Way("verdict again, with a proof", ("verify", "last", "--proof", proof, *runs), (0,), "holds"),
        Way("the proof repeated", ("verify", "--repeat", proof), (0,), "holds"),
        *(
            Way(
                f"export as {kind}",
                ("export", "last", "--format", kind, "--out", str(folder / file), *runs),
                (0,),
            )
            for kind, file in (
                ("cu", "kernel.cu"),
                ("kernelbench", "kernelbench.py"),
                ("module", "module.py"),
            )
        ),
    ]


def tried(way: Way, device: Sequence[str]) -> tuple[str, bool]:
    """What a command came to, in a line, and whether that is right."""
    if way.needs and not shutil.which(way.needs):
        return f"left out: no {way.needs}", True
    takes_device = way.words[0] in ("evaluate", "optimize", "verify")
    command = [sys.executable, "-m", "kernelblaster", *way.words, *(device if takes_device else ())]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    verdict = next(
        (line for line in lines if line.split()[0].isalpha() and line[0].isupper()),
        lines[-1] if lines else "",
    )
    right = done.returncode in way.codes and way.says in done.stdout
    return f"exit code {done.returncode}; {verdict or done.stderr.strip()[-160:]}"[:200], right


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", choices=("auto", "cuda", "emulated"), default="auto")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    lines = ["# Each way of looking at a kernel", "", "| what | came to | s | right |", "|---|---|---|---|"]
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        for way in ways(Path(name)):
            begun = time.monotonic()
            came_to, right = tried(way, ("--device", options.device))
            wrong += not right
            cells = (
                way.what,
                came_to.replace("|", "/"),
                f"{time.monotonic() - begun:.1f}",
                "yes" if right else "NO",
            )
            lines.append("| " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
            keep(lines, options.out)
        ran = subprocess.run([sys.executable, str(ALONE), name], capture_output=True, text=True)
        told = (ran.stdout.strip() or ran.stderr.strip()[-200:]).replace("|", "/")
        lines.append(
            f"| the exports, without the package | {told} |  | {'yes' if ran.returncode == 0 else 'NO'} |"
        )
        print(lines[-1])
        keep(lines, options.out)
        wrong += ran.returncode != 0
    return wrong


if __name__ == "__main__":
    raise SystemExit(main())
