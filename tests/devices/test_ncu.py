"""Parsing a real report: four candidates under one start of ncu on an H200."""

from pathlib import Path

from kernelblaster.devices.ncu import METRICS, OF_PEAK, QUICK_METRICS, _counted, parse
from kernelblaster.policies.expert.signals import GLOBAL, signals_of
from kernelblaster.records import Profile

REPORT = (Path(__file__).parent / "data" / "ncu_details.csv").read_text()


def test_kernels_come_in_launch_order_with_typed_metrics() -> None:
    kernels = parse(REPORT)
    assert len(kernels) == 4
    first = kernels[0]
    assert first.name.startswith("softmax(")
    assert first.block == (256, 1, 1) and first.grid == (8192, 1, 1)
    duration = first.metric("Duration")
    assert duration is not None and duration.unit == "ns"
    assert isinstance(duration.value, float) and 30_000 < duration.value < 80_000
    occupancy = first.metric("Theoretical Occupancy")
    assert occupancy is not None and occupancy.value == 100.0
    policy = first.metric("Cluster Scheduling Policy")
    assert policy is not None and policy.value == "PolicySpread"
    assert all(metric.tier == "ncu" for metric in first.metrics)


def test_the_rules_advice_is_kept() -> None:
    advice = [a for kernel in parse(REPORT) for a in kernel.advice]
    assert advice
    assert all(a.message and a.rule for a in advice)
    assert any(a.estimated_speedup_percent is not None for a in advice)


def test_the_same_name_in_two_sections_is_two_metrics() -> None:
    named = [m for m in parse(REPORT)[0].metrics if m.name == "Memory Throughput"]
    assert {m.unit for m in named} == {"%", "byte/s"}


def test_output_without_a_report_is_no_kernels() -> None:
    assert parse("==ERROR== ERR_NVGPUCTRPERM") == []
    assert parse("") == []


def test_atomics_are_asked_for_by_the_names_that_states_are_made_from() -> None:
    assert {GLOBAL.format("requests", way) for way in ("ld", "st", "atom", "red")} <= set(METRICS)


def test_a_quick_profile_names_states_by_the_same_signals() -> None:
    """What the sections call a metric, it is called where it was asked for by itself."""
    names = {m.name for kernel in parse(REPORT) for m in kernel.metrics}
    pipes = {name for name in QUICK_METRICS.values() if name.startswith("Pipe ")}
    assert set(QUICK_METRICS.values()) - pipes <= names
    told = REPORT.replace('"DRAM Throughput"', f'"{OF_PEAK.format("gpu__dram_throughput", "elapsed")}"')
    assert told != REPORT
    profile = Profile(device="NVIDIA H200", tier="ncu", workload="primary", kernels=tuple(parse(told)))
    usual = Profile(device="NVIDIA H200", tier="ncu", workload="primary", kernels=tuple(parse(REPORT)))
    for kernel, same in zip(profile.kernels, usual.kernels, strict=True):
        assert signals_of(profile, kernel) == signals_of(usual, same)


def test_only_what_a_depth_needs_is_counted() -> None:
    quick, usual, detailed = (_counted(depth) for depth in ("quick", "usual", "detailed"))
    assert set(quick[1]) < set(usual[1]) < set(detailed[1])
    assert set(usual[0]) < set(detailed[0]) and set(usual[0]) < set(quick[0])
