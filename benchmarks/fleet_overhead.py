"""What a fleet costs beside the local pool: the same bench of ten small tasks, by turns on either.

python benchmarks/fleet_overhead.py [--pairs 3] [--tasks 10] [--out results/fleet-overhead.md]

Two nodes on this machine (fleet_here.py) with a PTX machine each, against two processes that have one each.
Wall time is compared in pairs that run one after the other; processor time is that of all processes, those
of the nodes included, and does not depend on what else the machine does. On the fleet, events, leases,
verdicts and knowledge are in PostgreSQL, whose processor time is counted too.
"""

import argparse
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

from fleet_here import Fleet, descendants, running_fleet
from publish import publish

WORKERS = 2
LOOK_S = 0.1  # between two looks at how much processor time each process has used
TICKS = 100.0  # of the processor clock a second


@dataclass(frozen=True)
class Spent:
    """Seconds that a bench took, of wall time and of processor time."""

    wall_s: float
    processor_s: float


def used_by(pid: int) -> float:
    """The processor time in seconds of a process by itself; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def watch(bench: "Popen[bytes]", fleet: Fleet) -> Spent:
    """Wait for a bench, and add up what all processes that may work for it use meanwhile. What one uses after
    the last look at it is not seen: up to LOOK_S seconds for each process."""
    before = {pid: used_by(pid) for pid in fleet.processes()}
    latest = dict(before)
    start = time.monotonic()
    while bench.poll() is None:
        for pid in (bench.pid, *descendants(bench.pid), *fleet.processes()):
            latest[pid] = max(latest.get(pid, 0.0), used_by(pid))
        time.sleep(LOOK_S)
    wall = time.monotonic() - start
    if bench.returncode != 0:
        raise SystemExit(fleet.said)
    return Spent(wall, sum(spent - before.get(pid, 0.0) for pid, spent in latest.items()))


def measure(fleet: Fleet, name: str, *, on_fleet: bool) -> Spent:
    """One bench, with nothing compiled before."""
    fleet.forget()
    store = fleet.new_store() if on_fleet else None
    return watch(fleet.begin(fleet.root / name, store, workers=WORKERS), fleet)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    lines = [
        "# A fleet of two nodes against the local pool",
        "",
        f"A bench of {given.tasks} small tasks, {WORKERS} searches at once, on two PTX machines in either "
        "case. Processor time is that of all processes that work for it.",
        "",
        "| pair | local, wall | fleet, wall | ratio | local, processor | fleet, processor | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    walls, processors = [], []
    with running_fleet(given.tasks) as fleet:
        for pair in range(given.pairs):
            first, second = (False, True) if pair % 2 == 0 else (True, False)
            spent = {one: measure(fleet, f"{pair}-{one}", on_fleet=one) for one in (first, second)}
            local, remote = spent[False], spent[True]
            walls.append(remote.wall_s / local.wall_s)
            processors.append(remote.processor_s / local.processor_s)
            lines.append(
                f"| {pair + 1} | {local.wall_s:.0f} s | {remote.wall_s:.0f} s | {walls[-1]:.2f} | "
                f"{local.processor_s:.0f} s | {remote.processor_s:.0f} s | {processors[-1]:.2f} |"
            )
            print(lines[-1], flush=True)
    lines += [
        "",
        f"Median ratio: {statistics.median(walls):.2f} of wall time, {statistics.median(processors):.2f} of "
        "processor time (wanted: at most 1.10).",
    ]
    publish(lines, given.out)


if __name__ == "__main__":
    sys.exit(main())
