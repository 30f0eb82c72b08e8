"""How long a large report takes, and how large it is.

python benchmarks/report.py [--tasks 250] [--steps 46] [--out results/report.md]

The bench is made, not searched (kernelblaster.testing.made_bench): as many events, profiles and sources as
a real one has.
"""

import argparse
import os
import platform
import tempfile
import time
from pathlib import Path

from kernelblaster.report.writing import read, write
from kernelblaster.testing.made_bench import made_bench


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tasks", type=int, default=250)
    parser.add_argument("--steps", type=int, default=46, help="of each task")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    os.fsync = lambda file: None  # what is measured is the reading
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "bench"
        made_bench(folder, options.tasks, options.steps).close()
        on_disk = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        start = time.perf_counter()
        contents = read([str(folder)], folder, folder)
        middle = time.perf_counter()
        page = write(contents, Path(scratch) / "report.html")[0]
        end = time.perf_counter()
        steps = sum(len(detail.steps) for detail in contents[0].details.values())
        size = page.stat().st_size
    text = (
        "# A large report\n\n"
        f"{options.tasks} tasks, {steps} steps, {on_disk / 1e6:.0f} MB on disk; "
        f"{os.cpu_count()} cores ({platform.machine()}), no GPU.\n\n"
        "| what | figure |\n|---|---|\n"
        f"| reading and counting | {middle - start:.1f} s |\n"
        f"| writing the page | {end - middle:.1f} s |\n"
        f"| the page | {size / 1e6:.1f} MB |\n"
    )
    print(text)
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
