"""The first five minutes: the real search, export and page on a judge that knows all times beforehand; the
race on the PTX machine."""

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernelblaster import opening
from kernelblaster.cli import demo
from kernelblaster.devices.specs import gpu_specs
from kernelblaster.judge.timing import conclude
from kernelblaster.records import (
    Candidate,
    Compilation,
    Evaluation,
    Floor,
    KernelProfile,
    Profile,
    Task,
    Timing,
)
from kernelblaster.records.outcome import Speedup

ROOT = Path(__file__).parents[2]


@dataclass
class Improving:
    """Finds every candidate correct, and each faster than the one before."""

    judged: int = 0
    options: Any = field(default_factory=lambda: SimpleNamespace(profile=True))
    device: Any = field(
        default_factory=lambda: SimpleNamespace(name="made", spec=gpu_specs()["h200"], modelled=True)
    )

    def prepare(self, task: Task) -> tuple[None, Floor]:
        return None, Floor(bytes=1, certain_bytes=1, operations=0)

    def evaluate_many(self, jobs: Sequence[tuple[Task, Candidate]]) -> Iterator[Evaluation]:
        for task, candidate in jobs:
            self.judged += 1
            yield self._evaluation(task, candidate)

    def confirmed(self, task: Task, candidate: Candidate, evaluation: Evaluation) -> Evaluation:
        return evaluation

    def _evaluation(self, task: Task, candidate: Candidate) -> Evaluation:
        found = Speedup(estimate=self.judged, low=self.judged, high=self.judged, confidence=None)
        kernels = re.findall(r"__global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(", candidate.source)
        shape = {"grid": (1, 1, 1), "block": (1, 1, 1)}
        timing = Timing(
            baseline="eager", baseline_us=1000, candidate_us=1000 / self.judged, speedup=found, samples=1,
            candidate_wall_us=None, candidate_activity_us=None, floor_us=1, seconds=0, modelled=True,
        )  # fmt: skip
        return Evaluation(
            task=task.name,
            candidate=candidate.digest,
            device="made",
            seconds=0,
            outcome=conclude(found),
            timing=timing,
            compilation=Compilation(
                architecture="sm_90a", compiler="nvcc", seconds=1, cached=False, resources=()
            ),
            profile=Profile(
                device="made",
                tier="modelled",
                workload="primary",
                kernels=tuple(KernelProfile(name=name, metrics=(), **shape) for name in kernels),
            ),
        )


def test_the_demo_searches_twice_and_leaves_a_page_and_an_export(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def judging(*_: object, **__: object) -> Iterator[Improving]:
        yield Improving()

    monkeypatch.setattr(opening, "open_searching", judging)
    monkeypatch.setattr(demo, "_show_machine", lambda: None)
    monkeypatch.setattr(demo, "_show_race", lambda: None)
    folder = tmp_path / "demo"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "activate").touch()
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    monkeypatch.chdir(tmp_path)
    demo.demo(folder, "emulated")
    told = capsys.readouterr().out
    assert "of 7 judged: " in told  # through a pipe, a line for each step
    assert "  kernelblaster optimize core/level2/scale_mask_softmax --budget 10\n" in told
    assert f"kernelblaster kb report --kb {folder / 'knowledge.db'}\n" in told
    assert "  . bin/activate\n" in told
    assert "7.0x modelled over eager PyTorch" in told and "expected" in told
    figures = re.findall(r"\b\d[\d.]*(?:x| us)\b(.{0,9})", told)
    assert len(figures) > 8  # each time and each speedup says of which kind it is, on its own line
    assert {words.strip() for words in figures} <= {"modelled", "measured"}
    assert "4. The next task" in told and str(folder / "report.html") in told.replace("\n", "")
    assert {path.name for path in folder.iterdir()} >= {"report.html", "cosine_similarity.py", "knowledge.db"}
    assert demo._unused(folder) == tmp_path / "demo-2"


def test_the_shipped_race_is_caught_with_its_lines(compiler: str, capsys: pytest.CaptureFixture[str]) -> None:
    demo._show_race()
    told = capsys.readouterr().out
    assert "Rejected: race" in told
    assert "16 | if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;" in told
    assert "24 | return partial[0];" in told


def test_measured_figures_are_those_of_the_results() -> None:
    with (ROOT / "results" / "core-h200" / "report.csv").open() as file:
        rows = {row["task"]: row for row in csv.DictReader(file)}
    for task, told in demo.MEASURED.items():
        row = rows[task]
        assert told == pytest.approx((float(row["speedup_eager"]), float(row["speedup_compile"])), abs=0.005)
