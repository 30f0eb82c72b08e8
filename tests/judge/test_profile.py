"""Profiling: tasks lie side by side in the arena, as many as it may hold."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernelblaster.devices.device import Pointer, ProfileJob
from kernelblaster.judge import profile
from kernelblaster.judge.baseline import ModuleBaseline
from kernelblaster.judge.compile import Binary
from kernelblaster.judge.judge import Checked, DeviceJudge, Judged
from kernelblaster.judge.profile import Profiled, profile_candidates
from kernelblaster.records import Accepted, Candidate, Profile, Task, Verification
from kernelblaster.records.evaluation import Compilation
from kernelblaster.records.outcome import Speedup
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


class Counting(DeviceJudge):
    """Accepts everything, and counts how often it looks whether a candidate is right."""

    checks = 0

    def compile(self, task: Task, candidate: Candidate) -> Binary:
        compilation = Compilation(
            seconds=0, cached=False, architecture="sm_90a", compiler="none", resources=()
        )
        return Binary(Path("candidate"), compilation)

    def _prepare(self, task: Task) -> Any:
        return SimpleNamespace(task=task)

    def _judge(self, prepared: Any, binary: Binary, draw: Any) -> Judged:
        return Judged(Accepted(speedup=Speedup(estimate=2, low=2, high=2, confidence=0.99)))

    def _check(self, prepared: Any, binary: Binary) -> Checked:
        self.checks += 1
        return Checked(Verification(cases=(), calls=1, deterministic=True, seconds=0))


class Profiling:
    """A clock that makes empty profiles."""

    def profiles(self, wanted: Any, *, depth: str) -> list[list[Profile]]:
        one = Profile(device="fake", tier="activity", workload="primary", kernels=())
        return [[one for _ in binaries] for _, binaries in wanted]


def test_code_that_was_found_correct_is_not_verified_again_whoever_wrote_it(task: Task) -> None:
    judge = Counting(FakeDevice(task.signature))
    judge._clock = Profiling()  # type: ignore[assignment]
    judge.evaluate(task, Candidate(source="a", origin="one technique"))
    found = judge.profile(task, [Candidate(source=s, origin="another") for s in ("a", "b")])
    assert [type(one) for one in found] == [Profile, Profile] and judge.checks == 1
