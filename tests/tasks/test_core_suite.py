"""Every shipped task loads, has held-out workloads, and is fit at its small workload."""

import pytest

from kernelblaster.tasks.catalog import find, load_file
from kernelblaster.tasks.fitness import fitness_of

TASKS = find("core")


def test_the_suite_is_as_large_as_promised() -> None:
    levels = [name.split("/")[1] for name, _ in TASKS]
    assert levels.count("level1") >= 30
    assert levels.count("level2") >= 20
    assert levels.count("level3") >= 10


@pytest.mark.parametrize(("name", "path"), TASKS, ids=[name for name, _ in TASKS])
def test_task(name: str, path) -> None:  # type: ignore[no-untyped-def]
    task = load_file(name, path)
    assert task.small is not None and task.small_declared
    assert task.small.total_bytes(task.signature) < 1 << 20
    assert task.held_out, "no size of this task is free"
    assert fitness_of(task).problems == ()
