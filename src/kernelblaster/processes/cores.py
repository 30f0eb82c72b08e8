"""How many cores this process may use."""

import os


def usable_cores() -> int:
    """Returns the number of CPU cores that this process may run on, at least 1. They may be fewer than the
    machine has, as under `taskset` or in a container with a set of cores of its own. A quota on the time of
    all cores is not considered."""
    return len(os.sched_getaffinity(0))
