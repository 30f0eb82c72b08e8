"""Recurrent layers in one launch that loops over its steps are as right as with a launch for each; blocks
that wait for each other are all resident; what does not fit is refused in words."""

from pathlib import Path
from random import Random

import pytest

from kernelblaster.api import load_task
from kernelblaster.devices.occupancy import blocks_per_sm
from kernelblaster.devices.specs import gpu_specs
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.plan import Plan
from kernelblaster.policies.expert.schedules.recurrences import PersistentSteps
from kernelblaster.policies.expert.simplify import simplify
from kernelblaster.policies.expert.techniques import load_techniques
from kernelblaster.policies.expert.techniques.persistent_recurrence import Layer, schedules
from kernelblaster.records import Candidate, Verification

SOURCE = """import torch, torch.nn as nn
batch, length, features, hidden = {sizes}
SMALL = {{"batch": {small[0]}, "length": {small[1]}, "features": {small[2]}, "hidden": {small[3]}}}
class Model(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        {layers}
    def forward(self, x, *states):
        {body}
def get_inputs():
    return [torch.randn(length, batch, features){states}]
def get_init_inputs():
    return [features, hidden]
"""
ONE = "self.cell = nn.{}(features, hidden)", "return self.cell(x)[0]"


def plan_of(folder: Path, parts: tuple[str, str], sizes: tuple[int, ...] = (8, 12, 24, 40)) -> Plan:
    file = folder / "recurrence.py"
    file.write_text(SOURCE.format(sizes=sizes, small=(3, 4, 5, 6), layers=parts[0], body=parts[1], states=""))
    return initial_plan(simplify(capture(load_task(str(file)))))


def persistent(plan: Plan) -> Plan:
    return next(load_techniques()["persistent_recurrence"](plan))


def random_layer(random: Random, place: int) -> tuple[str, str, str]:
    """A layer, its call, and the initial states that it takes, as text."""
    kind = random.choice(("LSTM", "GRU", "RNN"))
    layers, both, first = random.randint(1, 2), random.random() < 0.6, random.random() < 0.5
    given = {"num_layers": layers, "bidirectional": both, "batch_first": first, "bias": random.random() < 0.7}
    if kind == "RNN":
        given["nonlinearity"] = random.choice(("tanh", "relu"))
    words = ", ".join(f"{name}={value!r}" for name, value in given.items())
    x = "x.transpose(0, 1)" if first else "x"
    state = f", torch.randn({layers * (1 + both)}, batch, hidden)" if random.random() < 0.5 else ""
    count = 2 if kind == "LSTM" else 1
    taken = ", ".join("next(given)" for _ in range(count))
    call = f"self.l{place}({x}, {f'({taken})' if count > 1 else taken})" if state else f"self.l{place}({x})"
    return f"self.l{place} = nn.{kind}(features, hidden, {words})", call, state * count


@pytest.mark.parametrize(
    ("seed", "sizes", "small"),
    [(14, (9, 11, 13, 70), (3, 4, 5, 19)), (7, (2, 5, 8, 1000), (1, 1, 3, 33))],
    ids=["odd", "single"],
)
def test_random_layers_are_right(
    judge: DeviceJudge, tmp_path: Path, seed: int, sizes: tuple[int, ...], small: tuple[int, ...]
) -> None:
    """The layers of one module, so that one compilation serves them all. With 1000 features, few groups of
    sequences are computed at once, and the judge's larger batches follow in turn."""
    random = Random(seed)
    layers, calls, states = zip(*(random_layer(random, place) for place in range(2)), strict=True)
    lines = ["given = iter(states)", "found = []"]
    for call in calls:
        lines += [f"out, last = {call}", "found += [out, *(last if isinstance(last, tuple) else (last,))]"]
    body = "\n        ".join([*lines, "return tuple(found)"])
    file = tmp_path / "layers.py"
    text = "\n        ".join(layers)
    file.write_text(SOURCE.format(sizes=sizes, small=small, layers=text, body=body, states="".join(states)))
    task = load_task(str(file))
    plan = persistent(initial_plan(simplify(capture(task))))
    assert all(kernel.schedule.loops_over_steps for kernel in plan.kernels if kernel.steps is not None)
    outcome = judge.check(task, Candidate(source=emit(plan))).outcome
    assert isinstance(outcome, Verification), outcome


def test_both_directions_are_in_one_launch(tmp_path: Path) -> None:
    both = "self.cell = nn.LSTM(features, hidden, num_layers=2, bidirectional=True)"
    source = emit(persistent(plan_of(tmp_path, (both, "out, (h, c) = self.cell(x); return out, h, c"))))
    assert source.count("cudaLaunchCooperativeKernel(") == 2


@pytest.mark.parametrize("gpu", sorted(gpu_specs()))
def test_all_blocks_are_resident(gpu: str) -> None:
    random, spec, found = Random(0), gpu_specs()[gpu], 0
    for _ in range(300):
        layer = Layer(
            random.choice((1, 2)), random.randint(1, 300), random.randint(1, 1500), random.randint(1, 4)
        )
        for schedule in schedules(layer, spec):
            found += 1
            shared = schedule.shared_bytes(layer.gates)
            assert blocks_per_sm(spec.architecture, schedule.threads, 255, shared) >= 1
            blocks = -(-layer.features // schedule.features)
            assert blocks * schedule.groups <= spec.multiprocessors
            assert schedule.width >= layer.features
    assert found > 100


def test_small_batches_use_more_sms_than_one_group_of_large_blocks(tmp_path: Path) -> None:
    """Where there is one sequence, fewer features of a block make shorter steps; where there are many, blocks
    have more features, so that each of them reads fewer states."""
    spec = gpu_specs()["h200"]
    few, many = (schedules(Layer(1, batch, 512, 4), spec)[0] for batch in (1, 64))
    assert few.rows == 1 and many.rows > 1
    assert few.units < many.units


@pytest.mark.parametrize(
    ("kind", "sizes", "why"),
    [
        ("LSTM", (8, 12, 24, 2000), "its weights do not fit into the registers of all SMs together"),
        ("GRU", (8, 12, 24, 40), "its states are not float32"),
    ],
)
def test_refusals(tmp_path: Path, kind: str, sizes: tuple[int, ...], why: str) -> None:
    layer = ONE[0].format(kind) + (".double()" if "float32" in why else "")
    body = ONE[1].replace("x)", "x.double())") if "float32" in why else ONE[1]
    plan = plan_of(tmp_path, (layer, body), sizes)
    refusals = load_techniques()["persistent_recurrence"].why_not(plan)
    assert why in refusals.values()


def test_it_loops_within_the_kernel(tmp_path: Path) -> None:
    plan = persistent(plan_of(tmp_path, (ONE[0].format("LSTM"), ONE[1])))
    (kernel,) = [kernel for kernel in plan.kernels if isinstance(kernel.schedule, PersistentSteps)]
    text = emit(plan)
    assert f"for (int64_t {kernel.steps.name} = 0;" in text.partition('extern "C"')[0]  # type: ignore[union-attr]
    assert "<<<" not in text.partition("cudaLaunchCooperativeKernel")[2].partition("arguments")[0]
