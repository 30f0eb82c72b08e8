"""The GPU model on costs that are made up: what bounds a launch, and by how much."""

from typing import Any

import pytest

from kernelblaster.devices.gpu_model import (
    LAUNCH_US,
    architecture_of,
    kernel_time,
    residency_of,
    together,
)
from kernelblaster.devices.specs import GpuSpec, gpu_specs
from kernelblaster.records import Resources

PIPES = (
    "issue", "fma", "alu", "multiply", "special", "convert", "fp64", "half", "memory", "shuffle", "tensor"
)  # fmt: skip
H200 = gpu_specs()["h200"]


def resources(**fields: int) -> Resources:
    names = (
        "shared_bytes", "constant_bytes", "stack_bytes", "spill_store_bytes", "spill_load_bytes", "barriers"
    )  # fmt: skip
    return Resources(kernel="k", **dict.fromkeys(names, 0) | {"registers": 32} | fields)


def work(blocks: int, threads: int = 256) -> dict[str, Any]:
    return {"name": "k", "grid": [blocks, 1, 1], "block": [threads, 1, 1], "shared_bytes": 0}


def report(sampled: int = 64, *, latency: float = 1000.0, **fields: Any) -> dict[str, Any]:
    pipes = dict.fromkeys(PIPES, 0.0) | fields.pop("pipes", {})
    costs = {
        "sampled": sampled, "latency": latency * sampled, "pipes": pipes, "lines": 0, "missed_lines": 0,
        "l1_sectors": 0, "l1_hits": 0, "store_sectors": 0, "partial_lines": 0,
        "atomic_sectors": 0, "atomic_lanes": 0, "hottest_atomic": 0, "instructions": 100, "traffic": [],
    }  # fmt: skip
    counts = dict.fromkeys(
        ("shared_load_wavefronts", "shared_store_wavefronts", "local_sectors", "total_warp_instructions"), 0
    )
    counts |= {key: fields.pop(key) for key in list(fields) if key in counts}
    return {"costs": costs | fields, "counts": counts}


def tensor(size: int, first: int = 0, again: int = 0, stored: int = 0) -> dict[str, Any]:
    return {"name": "x", "bytes": size, "first": first, "alone": first, "again": again, "stored": stored}


def us(spec: GpuSpec, blocks: int, found: dict[str, Any], **fields: int) -> float:
    return kernel_time(spec, work(blocks), resources(**fields), found).total_us


@pytest.mark.parametrize("name", gpu_specs())
def test_every_gpu_has_an_architecture_and_a_plausible_clock(name: str) -> None:
    spec = gpu_specs()[name]
    clock_ghz = spec.fp32_tflops * 1e3 / (spec.multiprocessors * architecture_of(spec).fp32 * 2)
    assert 1.2 < clock_ghz < 2.7


def test_streaming_is_bound_by_device_memory() -> None:
    blocks, sectors = 100_000, 128
    found = report(traffic=[tensor(1 << 40, first=64 * sectors)])
    least_us = blocks * sectors * 32 / (H200.dram_gb_s * 1e3)
    assert least_us < us(H200, blocks, found) < 1.3 * least_us
    slower = gpu_specs()["a100"]
    assert us(slower, blocks, found) > 2 * us(H200, blocks, found)


def test_a_tensor_is_read_from_memory_once_however_many_blocks_use_it() -> None:
    shared = kernel_time(H200, work(10_000), resources(), report(traffic=[tensor(1 << 20, first=64 * 1024)]))
    assert shared.dram_read_bytes == 1 << 20
    assert shared.l2_bytes == 10_000 * 1024 * 32


def test_rereading_costs_memory_traffic_only_where_the_cache_is_too_small() -> None:
    def read(per_block: int) -> float:
        found = report(traffic=[tensor(1 << 40, first=64 * per_block, again=64 * per_block)])
        return kernel_time(H200, work(10_000), resources(), found).dram_read_bytes / (10_000 * per_block * 32)

    assert read(16) == 1.0
    assert read(4096) == 2.0


def test_waiting_is_hidden_by_other_blocks() -> None:
    found = report(latency=20_000)
    many = us(H200, 13_200, found, registers=32)
    few = us(H200, 13_200, found, registers=255)
    assert few > 3 * many


def test_one_block_takes_as_long_as_its_own_waits() -> None:
    clock_mhz = H200.fp32_tflops * 1e6 / (H200.multiprocessors * 256)
    assert us(H200, 1, report(1, latency=100_000)) > LAUNCH_US + 100_000 / clock_mhz


def test_spills_atomics_and_bank_conflicts_cost_time() -> None:
    plain = report(total_warp_instructions=64_000)
    base = us(H200, 10_000, plain)
    assert us(H200, 10_000, plain, spill_load_bytes=4000, spill_store_bytes=4000, stack_bytes=4000) > 2 * base
    assert us(H200, 10_000, report(hottest_atomic=64 * 256)) > 10 * base
    assert us(H200, 10_000, report(shared_load_wavefronts=64 * 20_000)) > 2 * base


def test_many_tiny_blocks_are_bound_by_how_fast_blocks_start() -> None:
    assert us(H200, 4_000_000, report(latency=10)) > 2000


def test_residency_follows_registers_and_shared_memory() -> None:
    assert residency_of(H200, work(10_000), resources()).blocks_per_sm == 8
    assert residency_of(H200, work(10_000), resources(registers=128)).blocks_per_sm == 2
    crowded = residency_of(H200, work(10_000), resources(shared_bytes=48 << 10))
    assert crowded.blocks_per_sm == 4
    assert crowded.l1_bytes < residency_of(H200, work(10_000), resources(registers=64)).l1_bytes


def test_bounds_together_are_at_least_the_largest() -> None:
    assert together([3.0, 0.0]) == 3.0
    assert 3.0 < together([3.0, 3.0]) < 4.5
    assert together([0.0]) == 0.0
