"""The emulated device agrees with itself; distances and inexact instructions are found."""

import agreement
import numpy
import pytest
from variants import FOLDER, read_kernel

from kernelblaster.devices.emulated import EmulatedDevice


def test_at_least_sixty_kernels():
    assert len(agreement.kernels()) >= 60


def test_what_is_recorded_can_be_replayed(tmp_path, compiler):
    device = EmulatedDevice()
    chosen = [read_kernel(FOLDER / f"{name}.cu") for name in ("swish_runs", "matmul_tensor_cores")]
    recorded, out = tmp_path / "agreement.npz", tmp_path / "agreement.md"
    agreement.record(device, chosen, recorded)
    assert agreement.replay(device, recorded, out) == 0
    device.close()
    text = out.read_text()
    assert "2 kernels" in text and "2 agree in every bit" in text
    assert "wmma.mma" in text and "ex2.approx" in text
    assert "Not compared" not in text


def test_ulps_cross_zero_and_know_both_zeros():
    one = numpy.array([1.0, -0.0, 1e-45, 2.0], dtype=numpy.float32)
    other = numpy.array([numpy.nextafter(numpy.float32(1), 2), 0.0, -1e-45, 2.0], dtype=numpy.float32)
    assert agreement.ulps(one, other).tolist() == [1, 0, 2, 0]
    assert agreement.ulps(numpy.array([3, 5]), numpy.array([3, 9])).tolist() == [0, 4]


@pytest.mark.parametrize(
    "ptx, kinds",
    [
        ("fma.rn.f32 %f1, %f2, %f3, %f4;", {}),
        ("add.f32 %f1, %f2, %f3;", {}),
        ("mul.f32 %f1, %f2, %f3; add.f64 %d1, %d2, %d3;", {}),
        ("mul.f32 %f1, %f2, %f3; sub.f32 %f4, %f1, %f3;", {"fusable": {"mul.f32", "sub.f32"}}),
        ("ex2.approx.ftz.f32 %f1, %f2;", {"approximate": {"ex2.approx"}}),
        ("atom.global.add.f64 %d1, [%rd1], %d2;", {"order of atomics": {"atom.global.add.f64"}}),
        ("red.global.add.s32 [%rd1], %r1;", {}),
    ],
)
def test_inexact_instructions(ptx, kinds):
    assert agreement.inexact(ptx) == kinds


def test_the_widest_kind_is_allowed():
    assert agreement.allowed_ulps({}) == 0
    assert agreement.allowed_ulps({"fusable": {"mul.f32"}, "approximate": {"ex2.approx"}}) == 16
