"""How many cores this process may use."""

import os


def usable_cores() -> int:
    """The number of CPU cores that this process may run on: fewer than the machine has inside a container or
    under `taskset` with a set of cores. At least 1."""
    return len(os.sched_getaffinity(0))
