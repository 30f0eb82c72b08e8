import pytest

from kernelblaster.devices.occupancy import blocks_per_sm, limits_of, occupancy_percent
from kernelblaster.devices.specs import gpu_specs, spec_named


@pytest.mark.parametrize(
    ("architecture", "threads", "registers", "shared", "blocks"),
    [
        ("sm_90a", 256, 30, 32, 8),  # as ncu reports for such a kernel on an H200
        ("sm_90a", 1024, 64, 0, 1),
        ("sm_90a", 128, 32, 100 << 10, 2),
        ("sm_90a", 128, 255, 0, 2),
        ("sm_80", 64, 32, 0, 32),
        ("sm_86", 1024, 32, 0, 1),
        ("sm_90a", 256, 32, 228 << 10, 0),
    ],
)
def test_blocks(architecture: str, threads: int, registers: int, shared: int, blocks: int) -> None:
    assert blocks_per_sm(architecture, threads, registers, shared) == blocks


def test_occupancy_is_a_share_of_all_warps() -> None:
    assert occupancy_percent("sm_90a", 256, 32, 0) == 100.0
    assert occupancy_percent("sm_90a", 1024, 64, 0) == 50.0


def test_unlisted_architectures_take_the_nearest_earlier_one() -> None:
    assert limits_of("sm_87") == limits_of("sm_86")


def test_specifications() -> None:
    specs = gpu_specs()
    assert {"a100", "a6000", "l40s", "l4", "rtx4090", "h100", "h200", "b200"} <= set(specs)
    found = spec_named("NVIDIA H200")
    assert found is not None and found.name == "h200"
    assert spec_named("Some Other Card") is None
    h200 = specs["h200"]
    assert h200.floor_us(4_800_000, 0, h200.fp32_tflops) == pytest.approx(1.0)
    assert h200.impossible_us(1000) == 0.0


def test_a_gpu_is_found_by_whole_words_of_its_name() -> None:
    """An L4 is no L40S, although the names begin alike."""
    found = {name: spec_named(name) for name in ("NVIDIA L4", "NVIDIA L40", "NVIDIA L40S", "NVIDIA H200 NVL")}
    names = {name: spec.name if spec else None for name, spec in found.items()}
    assert names == {
        "NVIDIA L4": "l4",
        "NVIDIA L40": None,
        "NVIDIA L40S": "l40s",
        "NVIDIA H200 NVL": "h200",
    }
