"""A layer norm on the fake device: small enough to judge hundreds of times, with parameters."""

from pathlib import Path
from random import Random

import pytest

from kernelblaster.devices.device import Runner
from kernelblaster.judge.baseline import ModuleBaseline
from kernelblaster.judge.cases import CasePlanner
from kernelblaster.judge.layout import slot_bytes, spare_bytes
from kernelblaster.judge.stop import Leash
from kernelblaster.judge.timing import Timer, conclude
from kernelblaster.judge.verify import Verifier
from kernelblaster.records import Outcome, Task, Timing, Verification
from kernelblaster.tasks.catalog import load_task
from kernelblaster.tasks.floor import floor_of
from kernelblaster.testing.fake_device import Body, FakeDevice

FILE = """
import torch, torch.nn as nn
rows = 60
cols = 40
SMALL = {"rows": 7, "cols": 9}
class Model(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.norm = nn.LayerNorm(cols)
    def forward(self, x):
        return self.norm(x)
def get_inputs():
    return [torch.randn(rows, cols)]
def get_init_inputs():
    return [cols]
"""


ARGMAX = """
import torch, torch.nn as nn
rows = 300
cols = 500
class Model(nn.Module):
    def forward(self, x):
        return torch.argmax(x, dim=1)
def get_inputs():
    return [torch.randn(rows, cols)]
def get_init_inputs():
    return []
"""


@pytest.fixture(scope="session")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    path: Path = tmp_path_factory.mktemp("task") / "layer_norm.py"
    path.write_text(FILE)
    return load_task(str(path))


@pytest.fixture(scope="session")
def argmax_task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    path: Path = tmp_path_factory.mktemp("task") / "argmax.py"
    path.write_text(ARGMAX)
    return load_task(str(path))


class Bench:
    """Judges Python bodies as if they were candidates."""

    def __init__(self, task: Task, seed: int = 1) -> None:
        self.task = task
        self.seed = seed
        self.device = FakeDevice(task.signature, seed=seed)
        self.baseline = ModuleBaseline(task, self.device)
        self.planner = CasePlanner(task, self.baseline, rng=Random(seed))
        sizes = slot_bytes(task.signature, self.planner.workloads)
        self.device.arena(sizes, spare_bytes(task.signature, self.planner.workloads))

    def verifier(self, runner: Runner | None = None) -> Verifier:
        cases = self.planner.draw(self.seed)
        return Verifier(self.device, self.task, self.baseline, runner, self.seed, cases)  # type: ignore[arg-type]

    def verify(self, body: Body) -> Verification | Outcome:
        return self.verifier(self.device.start(self.device.register(body))).verify()

    def judge(self, body: Body, duration_us: float = 50.0) -> Outcome:
        timing = self.time(body, duration_us)
        return conclude(timing.speedup) if isinstance(timing, Timing) else timing

    def time(self, body: Body, duration_us: float) -> Timing | Outcome:
        runner = self.device.start(self.device.register(body, duration_us))
        verifier = self.verifier(runner)
        verification = verifier.verify()
        if not isinstance(verification, Verification):
            return verification
        allowed = verifier.primary_errors()
        timer = Timer(self.device, self.task, self.baseline, runner, self.seed, allowed, Leash(self.device))
        return timer.time(floor_of(self.task))


@pytest.fixture
def bench(task: Task) -> Bench:
    return Bench(task)


@pytest.fixture(params=range(6))
def argmax_bench(argmax_task: Task, request: pytest.FixtureRequest) -> Bench:
    """With several seeds: what decides must not be luck."""
    return Bench(argmax_task, seed=request.param)
