"""Profiling: tasks lie side by side in the arena, as many as it may hold."""

from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernelblaster.devices.device import Pointer, ProfileJob
from kernelblaster.judge import profile
from kernelblaster.judge.baseline import ModuleBaseline
from kernelblaster.judge.profile import Profiled, profile_candidates
from kernelblaster.records import Profile, Task
from kernelblaster.testing.fake_device import FakeDevice


class Watched(FakeDevice):
    """Keeps what it is asked to profile, with the values that the first input has then."""

    def __init__(self, task: Task) -> None:
        super().__init__(task.signature)
        self.asked: list[list[ProfileJob]] = []
        self.seen: list[torch.Tensor] = []

    def profile(self, jobs: Sequence[ProfileJob]) -> list[Profile]:
        self.asked.append(list(jobs))
        for job in jobs:
            first = next(a for a in job.arguments if isinstance(a, Pointer) and a.name == "x")
            self.seen.append(self.memory[first.offset : first.offset + first.bytes].clone())
        return super().profile(jobs)


def wanted(task: Task, device: FakeDevice, count: int) -> Profiled:
    compilation: Any = SimpleNamespace(resources=())
    paths = [device.register(lambda *_: None) for _ in range(count)]
    binaries: Any = [SimpleNamespace(path=path, compilation=compilation) for path in paths]
    return Profiled(task, ModuleBaseline(task, device), binaries)


@pytest.mark.parametrize(("together", "starts"), [(1 << 30, [4]), (1, [1, 3])])
def test_tasks_are_profiled_side_by_side(
    task: Task, together: int, starts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profile, "TOGETHER_BYTES", together)
    device = Watched(task)
    found = list(profile_candidates(device, [wanted(task, device, 1), wanted(task, device, 3)]))
    assert [len(profiles) for profiles in found] == [1, 3]
    assert [len(jobs) for jobs in device.asked] == starts
    for jobs in device.asked:
        zones = {
            (a.offset, a.offset + a.bytes) for job in jobs for a in job.arguments if isinstance(a, Pointer)
        }
        ordered = sorted(zones)
        assert all(end <= start for (_, end), (start, _) in pairwise(ordered))
        assert max(end for _, end in zones) <= device.memory.numel()
    assert all(torch.equal(seen, device.seen[0]) for seen in device.seen)
