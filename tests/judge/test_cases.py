"""The plans of verifications: what every one of them holds, and that no two are alike."""

from pathlib import Path
from random import Random

import pytest

from kernelblaster.judge import cases
from kernelblaster.judge.case import FEW_TERMS, Case
from kernelblaster.judge.cases import ALWAYS, FAINT, VAST, CasePlanner
from kernelblaster.tasks.arrangements import SAFE
from kernelblaster.tasks.catalog import load_task
from tests.judge.conftest import FILE, Bench


@pytest.mark.parametrize("seed", range(8))
def test_every_plan_has_every_kind_of_values(bench, seed: int) -> None:  # type: ignore[no-untyped-def]
    plan = bench.planner.draw(seed)
    kinds = {case.distribution for case in plan}
    taken = [[kind for kind in row if bench.planner.domain.takes(0, kind)] for row in ALWAYS]
    assert all(kinds & set(row) for row in taken if row) and len(kinds & set(FAINT)) in (2, 3)
    assert sum(case.distribution in FEW_TERMS for case in plan) == 2 * len(FEW_TERMS)
    assert not kinds & {"infinite", "octaves", "low-octaves"}  # a row's elements depend on each other
    names = {case.workload.name for case in plan}
    assert {"below", "beside", "above", "primary"} <= names
    assert {case.focus for case in plan} == {None, "x", "norm_weight", "norm_bias"}
    assert sum(case.runs for case in plan) <= 56


@pytest.mark.parametrize("seed", range(8))
def test_the_range_of_a_format_shows_at_the_timed_sizes(bench, seed: int) -> None:  # type: ignore[no-untyped-def]
    """A path for these sizes in half precision is found by one call with vast and one with faint values."""
    at_base = {case.distribution for case in bench.planner.draw(seed) if case.workload.name == "primary"}
    widest = next(kind for kind in VAST if bench.planner.domain.takes(0, kind))
    assert widest in at_base and at_base & set(FAINT)


def test_plans_follow_from_the_seed_alone(bench) -> None:  # type: ignore[no-untyped-def]
    assert bench.planner.draw(1) == bench.planner.draw(1) != bench.planner.draw(2)


def test_cheap_cases_come_first(bench) -> None:  # type: ignore[no-untyped-def]
    plan = bench.planner.draw(3)
    sizes = [case.workload.total_bytes(bench.task.signature) for case in plan]
    assert sum(sizes[: len(plan) // 2]) < sum(sizes[len(plan) // 2 :])
    assert plan[-1].workload.name == "primary" and plan[-1].distribution == "written"


def test_what_a_slow_reference_cut_short_is_told(bench, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    assert bench.planner.cut_short == []
    monkeypatch.setattr("kernelblaster.tasks.domain.LIMIT_S", 0.0)
    planner = CasePlanner(bench.task, bench.baseline)
    assert len(planner.draw(1)) > 10
    [note] = planner.cut_short
    assert note.startswith("not all kinds of values were tried")


def test_of_gigabytes_only_some_cases_come_at_large_sizes(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "large.py").write_text(
        FILE.replace("rows = 60", "rows = 2000").replace("cols = 40", "cols = 800")
    )
    bench = Bench(load_task(str(tmp_path / "large.py")))
    signature = bench.task.signature
    base = bench.task.primary.total_bytes(signature)

    def large(seed: int) -> list[Case]:
        plan = bench.planner.draw(seed)
        return [case for case in plan if case.workload.total_bytes(signature) >= base / 4]

    usual = [large(seed) for seed in range(6)]
    monkeypatch.setattr(cases, "LARGE_BYTES", 6 * base)
    few = [large(seed) for seed in range(6)]
    for before, now in zip(usual, few, strict=True):
        assert now[-1] == before[-1] and len(now) < len(before)
        moved = sum(case.runs * case.workload.total_bytes(signature) for case in now[:-1])
        assert moved <= 6 * base or len(now) - 1 == cases.FEWEST_LARGE
        assert {case.workload.name for case in now} >= {"primary", "above"}
        assert {case.distribution for case in now[:-1]} <= {case.distribution for case in before}
    assert len({tuple(case.distribution for case in now) for now in few}) > 1
    whole = {case.distribution for case in bench.planner.draw(1)}
    monkeypatch.undo()
    assert whole == {case.distribution for case in bench.planner.draw(1)}


def test_memory_is_known_before(bench) -> None:  # type: ignore[no-untyped-def]
    most = {t.name: bench.planner.largest_bytes(t) for t in bench.task.signature.tensors}
    for seed in range(5):
        for case in bench.planner.draw(seed):
            for tensor in bench.task.signature.tensors:
                assert case.workload.bytes(tensor) <= most[tensor.name]


def test_inputs_keep_to_their_domain(bench) -> None:  # type: ignore[no-untyped-def]
    planner = CasePlanner(bench.task, bench.baseline, rng=Random(2))
    for case in planner.draw(5):
        for position, chosen in enumerate(case.inputs or ()):
            assert chosen in SAFE or planner.domain.takes(position, chosen)


def test_on_an_emulated_device_all_sizes_are_small(bench) -> None:  # type: ignore[no-untyped-def]
    planner = CasePlanner(bench.task, bench.baseline, small=True, most_bytes=1 << 20, rng=Random(2))
    plan = planner.draw(1)
    assert all(case.workload.module == "small" for case in plan)
    assert len({tuple(case.workload.sizes.values()) for case in plan}) > 4
    assert any(case.stays for case in plan)
