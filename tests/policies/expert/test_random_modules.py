"""Modules made at random are right after simplification, fusion and random techniques.

All of them are outputs of one module, so that one compilation serves them all; benchmarks/random_plans.py
judges as many as one likes."""

import sys
from contextlib import closing
from pathlib import Path
from random import Random

from kernelblaster.api import open_device
from kernelblaster.judge.judge import DeviceJudge
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.emit import emit
from kernelblaster.policies.expert.lower import initial_plan
from kernelblaster.policies.expert.simplify import simplify
from kernelblaster.records import Candidate, Verification

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from random_plans import fused, random_walk, write_module

CASES, STEPS = 20, 6
SIZES = (4096, 1536)


def test_random_modules_are_right_after_random_techniques(compiler: str, tmp_path: Path) -> None:
    random = Random(7)
    task = write_module(random, tmp_path, CASES, SIZES)
    first = initial_plan(simplify(capture(task)))
    start = fused(first)
    assert len(start.kernels) < len(first.kernels) / 2
    walk = random_walk(random, start, STEPS)
    assert len(walk.applied) == STEPS
    with closing(open_device("emulated")) as device, closing(DeviceJudge(device)) as judge:
        outcome = judge.check(task, Candidate(source=emit(walk.plan))).outcome
    assert isinstance(outcome, Verification), (walk.applied, outcome)
