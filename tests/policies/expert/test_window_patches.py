"""Poolings and depthwise convolutions whose threads compute patches of neighbouring results are right on the
emulated device."""

from pathlib import Path

import pytest

from kernelblaster.api import load_task
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules.windows import WindowPatches
from kernelblaster.policies.expert.simplify import simplify
from kernelblaster.policies.expert.sliding_windows import SlidingWindows, sliding_windows
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.records import Candidate, Task, Verification

SOURCE = """import torch, torch.nn as nn, torch.nn.functional as F
batch, height, width = 256, 30, 32
SMALL = {"batch": 2, "height": 13, "width": 14}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.depthwise = nn.Conv2d(6, 6, 3, padding=1, groups=6)
        self.doubled = nn.Conv2d(6, 12, (3, 5), stride=(2, 1), dilation=(2, 1), groups=6, bias=False)
        self.line = nn.Conv1d(6, 6, 4, padding=2, groups=6)
    def forward(self, x, line, volume):
        return (
            F.relu(self.depthwise(x)) + x,
            self.doubled(x),
            self.line(line),
            F.max_pool2d(x, 3, stride=2, padding=1),
            F.max_pool2d(x.abs(), (1, 4), stride=(2, 1), padding=(0, 2), dilation=(1, 2)),
            F.avg_pool2d(x, 3, stride=2, padding=1, ceil_mode=True, count_include_pad=False),
            F.max_pool3d(volume, 2, stride=1),
            F.avg_pool3d(volume, (3, 2, 2), stride=(1, 2, 2), padding=(1, 0, 1)),
            F.avg_pool1d(line, 8, stride=4),
            F.max_pool2d(x[:, :, 2:, 1:], (5, 3), stride=(1, 3)),
        )
def get_inputs():
    shapes = (6, height, width), (6, height * width), (2, 3, height, width)
    return [torch.randn(batch, *shape) for shape in shapes]
def get_init_inputs():
    return []
"""


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    file = tmp_path_factory.mktemp("task") / "windows.py"
    file.write_text(SOURCE)
    return load_task(str(file))


@pytest.fixture(scope="module")
def first(task: Task) -> Plan:
    return fused(initial_plan(simplify(capture(task))))


def fused(plan: Plan) -> Plan:
    while (following := next(load_techniques()["kernel_fusion"](plan), None)) is not None:
        plan = following
    return plan


def patches(plan: Plan) -> dict[str, WindowPatches]:
    return {k.name: k.schedule for k in plan.kernels if isinstance(k.schedule, WindowPatches)}


def test_windows_of_every_kind_are_right_with_what_is_around_them(
    judge: DeviceJudge, task: Task, first: Plan
) -> None:
    plan = next(load_techniques()["window_register_blocking"](first))
    assert len(patches(plan)) == len(task.signature.outputs)
    assert len(plan.kernels) == len(patches(plan))  # nothing around them is a kernel of its own
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome


def test_further_patches_are_right_too_with_sizes_as_constants(
    judge: DeviceJudge, task: Task, first: Plan
) -> None:
    known = load_techniques()
    several = list(known["window_register_blocking"](first))
    assert patches(several[0]) != patches(several[1])
    plan = next(known["index_simplification"](several[1]))
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome


def test_patches_follow_from_how_windows_overlap_and_lie_in_memory(task: Task, first: Plan) -> None:
    plan = next(load_techniques()["window_register_blocking"](first))
    by_output = {k.writes[-1]: k.schedule for k in plan.kernels if isinstance(k.schedule, WindowPatches)}
    found = [by_output[output.name] for output in task.signature.outputs]
    depthwise = found[0]
    assert depthwise.lines[0] > 1
    shapes = [(schedule.columns, schedule.vector_width) for schedule in found]
    assert shapes[:4] == [(4, 4), (4, 4), (1, 1), (2, 4)]  # of 961 columns none can be a vector
    assert shapes[-2:] == [(1, 4), (1, 1)]


def test_how_windows_lie(first: Plan) -> None:
    found: list[SlidingWindows | None] = [sliding_windows(kernel, first) for kernel in first.kernels]
    assert all(found)
    lines = {(s.taps, s.stride, s.step, s.offset) for windows in found if windows for s in windows.lines}
    columns = {(w.column.taps, w.column.stride, w.column.step, w.column.offset) for w in found if w}
    assert lines >= {(3, 1, 1, -1), (3, 2, 2, 0), (3, 2, 1, -1), (5, 1, 1, 2)}
    assert columns >= {(3, 1, 1, -1), (5, 1, 1, 0), (4, 1, 2, -2), (8, 4, 1, 0), (3, 3, 1, 1)}


def test_what_does_not_slide_is_refused_in_words(tmp_path: Path) -> None:
    source = SOURCE.partition("    def forward")[0] + (
        "    def forward(self, x):\n"
        "        turned = F.max_pool2d(x.transpose(2, 3), 3, stride=1)\n"
        "        return F.adaptive_avg_pool2d(x, (7, 9)), x.sum(1), turned\n"
        "def get_inputs():\n    return [torch.randn(batch, 6, height, width)]\n"
        "def get_init_inputs():\n    return []\n"
    )
    file = tmp_path / "others.py"
    file.write_text(source)
    plan = initial_plan(simplify(capture(load_task(str(file)))))
    technique = load_techniques()["window_register_blocking"]
    assert list(technique(plan)) == []
    said = technique.why_not(plan)
    assert len(said) == 3 and "windows that slide" in "".join(said.values())


def test_paddings_with_what_is_inside_are_lookups(judge: DeviceJudge, tmp_path: Path) -> None:
    file = tmp_path / "padded.py"
    file.write_text(
        "import torch, torch.nn as nn\n"
        "batch, height, width = 32, 12, 14\n"
        'SMALL = {"batch": 2, "height": 5, "width": 6}\n'
        "class Model(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        '        self.mirrored = nn.Conv2d(4, 8, 3, padding=(1, 2), padding_mode="reflect")\n'
        '        self.continued = nn.Conv2d(4, 4, 3, padding=1, padding_mode="replicate", groups=4)\n'
        "    def forward(self, x):\n"
        "        return self.mirrored(x), self.continued(x), x[:, torch.tensor([3, -1, -4])]\n"
        "def get_inputs():\n"
        "    return [torch.randn(batch, 4, height, width)]\n"
    )
    task = load_task(str(file))
    plan = initial_plan(simplify(capture(task)))
    tuned = fused(plan)
    for name in ("window_register_blocking", "vectorized_memory_access", "index_simplification"):
        tuned = next(load_techniques()[name](tuned), tuned)
    for found in (plan, tuned):
        outcome = judge.check(task, Candidate(source=emit(found))).outcome
        assert isinstance(outcome, Verification), outcome
