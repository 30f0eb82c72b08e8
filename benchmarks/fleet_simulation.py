"""How a fleet scales from 1 to 1,000 devices: a simulation from measured service times.

python benchmarks/fleet_simulation.py --dispatch-ms MS [--out results/fleet-simulation.md]

MS is what benchmarks/fleet_load.py gives for one request with leases on PostgreSQL.

A bench of searches, two for each device, as far as the cores of their machine go. A search prepares its
task on its device, and then again and again profiles a candidate there, computes the next ones, has them
compiled on any core of the fleet, judged on its device, and their results recorded in the knowledge base.
Every request passes through one dispatcher, and every update through one database. What is shared, and so
ends growth: the dispatcher's thread, the database, and the cores of the machine on which the searches run.
"""

import argparse
import random
from collections.abc import Generator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import simpy
from publish import keep

SIMULATED_S = 120.0
DEVICES = (1, 2, 8, 16, 32, 64, 128, 256, 512, 1000)
SPREAD = 0.5  # of the logarithm of a service time: kernels differ


@dataclass(frozen=True)
class ServiceTimes:
    """Seconds of one device, core or server for one piece of work, and how much there is of each. On an H200
    with 16 cores: a verdict and a compilation from results/throughput.md (64 candidates in 30.4 s; 2.00 s
    alone), a profile from there, preparing a task from results/core-h200/report.md (21 % of 927 s for 69
    tasks); a step of the loop from results/loop.md; dispatch and update from benchmarks/fleet_load.py."""

    dispatch: float
    update: float
    verdict: float = 0.475
    compile: float = 1.5
    profile: float = 1.13
    prepare: float = 2.8
    step: float = 0.016
    batch: int = 2  # candidates between two profiles
    budget: int = 24  # candidates of a search
    searches: int = 2  # for each device
    cores: int = 15  # for compilers, for each device
    search_cores: int = 16  # of the machine on which the searches run, at most 8 to each


class Simulation:
    """One bench on so many devices."""

    def __init__(self, times: ServiceTimes, devices: int, seed: int = 0) -> None:
        self.times = times
        self.judged = 0
        self.updates = 0
        self._rng = random.Random(seed)
        self._world = simpy.Environment()
        self._devices = [simpy.Resource(self._world, 1) for _ in range(devices)]
        self._compilers = simpy.Resource(self._world, max(1, times.cores * devices))
        self._cores = simpy.Resource(self._world, times.search_cores)
        self._dispatcher = simpy.Resource(self._world, 1)
        self._database = simpy.Resource(self._world, 1)
        self.busy: dict[str, float] = {"device": 0.0, "dispatcher": 0.0, "database": 0.0, "search cores": 0.0}
        for number in range(min(times.searches * devices, 8 * times.search_cores)):
            self._world.process(self._searching(self._devices[number % devices]))

    def run(self) -> None:
        self._world.run(until=SIMULATED_S)
        shares = {
            "device": len(self._devices),
            "dispatcher": 1,
            "database": 1,
            "search cores": self.times.search_cores,
        }
        self.busy = {name: spent / SIMULATED_S / shares[name] for name, spent in self.busy.items()}

    def _use(
        self, resource: simpy.Resource, seconds: float, name: str | None, *, varies: bool = True
    ) -> Generator[Any, Any, None]:
        """Wait for a resource, and use it for about so long; `name` is how that is counted."""
        with resource.request() as turn:
            yield turn
            taken = seconds * self._rng.lognormvariate(-(SPREAD**2) / 2, SPREAD) if varies else seconds
            if name is not None:
                self.busy[name] += min(taken, SIMULATED_S - self._world.now)
            yield self._world.timeout(taken)

    def _asking(self, device: simpy.Resource, seconds: float) -> Generator[Any, Any, None]:
        """A request that a device answers."""
        yield from self._use(self._dispatcher, self.times.dispatch, "dispatcher", varies=False)
        yield from self._use(device, seconds, "device")

    def _candidate(self, device: simpy.Resource) -> Generator[Any, Any, None]:
        """One candidate, from its source to what it taught."""
        yield from self._use(self._cores, self.times.step, "search cores")
        yield from self._use(self._compilers, self.times.compile, None)
        yield from self._asking(device, self.times.verdict)
        self.judged += 1
        yield from self._use(self._database, self.times.update, "database", varies=False)
        self.updates += 1

    def _searching(self, device: simpy.Resource) -> Generator[Any, Any, None]:
        """One search after the other, on one device."""
        yield self._world.timeout(self._rng.uniform(0, 5))
        while True:
            yield from self._asking(device, self.times.prepare)
            for _ in range(self.times.budget // self.times.batch):
                yield from self._asking(device, self.times.profile)
                batch = [self._world.process(self._candidate(device)) for _ in range(self.times.batch)]
                yield self._world.all_of(batch)


def table(times: ServiceTimes, title: str, most: int = 1000) -> list[str]:
    """The lines of a table for all numbers of devices up to `most`."""
    lines = [
        "",
        f"## {title}",
        "",
        "| devices | candidates a minute | efficiency | device busy | dispatcher | database | search cores |",
        "|---|---|---|---|---|---|---|",
    ]
    alone = 0.0
    for devices in (one for one in DEVICES if one <= most):
        simulation = Simulation(times, devices)
        simulation.run()
        rate = 60 * simulation.judged / SIMULATED_S
        alone = alone or rate
        busy = simulation.busy
        shares = " | ".join(
            f"{busy[name]:.0%}" for name in ("device", "dispatcher", "database", "search cores")
        )
        lines.append(f"| {devices} | {rate:.0f} | {rate / devices / alone:.0%} | {shares} |")
    return lines


CORES = (1, 2, 3, 4, 6, 8, 15)


def cores_table(times: ServiceTimes, devices: int) -> list[str]:
    """The lines of a table for numbers of cores for compilers; what the searches need is not limited."""
    lines = [
        "",
        f"## Cores for compilers, {devices} devices",
        "",
        "| cores for each device | candidates a minute | of those with 15 | device busy |",
        "|---|---|---|---|",
    ]
    runs = {}
    for cores in CORES:
        runs[cores] = Simulation(replace(times, cores=cores, search_cores=16 * devices), devices)
        runs[cores].run()
    for cores, one in runs.items():
        rate = 60 * one.judged / SIMULATED_S
        share = one.judged / runs[CORES[-1]].judged
        lines.append(f"| {cores} | {rate:.0f} | {share:.0%} | {one.busy['device']:.0%} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dispatch-ms", type=float, required=True)
    parser.add_argument("--updates-a-second", type=float, default=600.0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    times = ServiceTimes(dispatch=given.dispatch_ms / 1e3, update=1 / given.updates_a_second)
    lines = [
        "# A fleet of 1 to 1,000 devices, simulated",
        "",
        f"{SIMULATED_S:.0f} simulated seconds. Efficiency is candidates a minute and device, over those of "
        f"one device alone. {times.searches} searches for each device, {times.cores} cores for compilers; a "
        f"verdict takes {times.verdict} s of a device, a profile {times.profile} s, preparing a task "
        f"{times.prepare} s, a compilation {times.compile} s of a core, dispatching "
        f"{1e3 * times.dispatch:.2g} ms of one thread, an update {1e3 * times.update:.2g} ms of one "
        "database.",
    ]
    print("\n".join(lines))
    many = replace(times, search_cores=256)
    four = replace(times, searches=4, search_cores=32)
    for made in (
        partial(table, times, "Searches on a machine with 16 cores", 128),
        partial(table, many, "Searches on as many cores as they need"),
        partial(table, four, "Searches on 32 cores, four for each device", 64),
        partial(cores_table, times, 8),
    ):
        new = made()
        lines += new
        keep(lines, given.out)
        print("\n".join(new), flush=True)


if __name__ == "__main__":
    main()
