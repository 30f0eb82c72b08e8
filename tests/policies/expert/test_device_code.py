"""Device functions on their own, on the PTX machine: what values of all kinds give."""

import math
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from kernelblaster.policies.expert.cuda.headers import header
from kernelblaster.ptx.machine import Machine, Module

KERNELS = """
extern "C" __global__ void exponentials(float* out, const float* x, int packs) {
  Exponentials<float> single = {-INFINITY, 0}, by_packs[2] = {{-INFINITY, 0}, {-INFINITY, 0}};
  for (int k = 0; k < packs; ++k) {
    const float values[4] = {x[4 * k], x[4 * k + 1], x[4 * k + 2], x[4 * k + 3]};
    by_packs[k % 2].take(values);
    for (float value : values) single.take(value);
  }
  const Exponentials<float> joined = JoinExponentials()(by_packs[0], by_packs[1]);
  out[0] = single.largest + logf(single.sum);
  out[1] = joined.largest + logf(joined.sum);
}
extern "C" __global__ void moments(double* out, const float* x, int packs) {
  Differences<float> found;
  const float first[1] = {x[0]};
  found.take(first);
  for (int k = 0; k < packs; ++k) {
    const float values[4] = {x[1 + 4 * k], x[2 + 4 * k], x[3 + 4 * k], x[4 + 4 * k]};
    found.take(values);
  }
  const Moments all = found.moments();
  out[0] = all.sum;
  out[1] = all.squares;
}
"""
INF, NAN = math.inf, math.nan
ROWS = {
    "usual": [0.5, -3, 2, 8, 1, 1, -7, 3],
    "large": [88, 1000, 999, -1000, 1000, 5, 6, 7],
    "the largest last": [-90, -80, -70, -60, -50, -40, 0, 90],
    "lowest": [-INF] * 8,
    "lowest at first": [*[-INF] * 4, 1, -INF, 2, 3],
    "lowest in between": [1, 2, -INF, 3, *[-INF] * 4],
    "no number first": [NAN, 1, 2, 3, 4, 5, 6, 7],
    "no number later": [0, 1, 2, 3, 4, NAN, 6, -INF],
}


@pytest.fixture(scope="module")
def text(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("device-code")
    (folder / "k.cu").write_text(header("exponentials").text + header("moments").text + KERNELS)
    command = [compiler, "-O3", "-arch=compute_80", "-ptx", "k.cu", "-o", "k.ptx"]
    subprocess.run(command, cwd=folder, check=True)
    return (folder / "k.ptx").read_text()


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as opened:
        yield opened


@pytest.fixture
def module(machine: Machine, text: str) -> Module:
    return machine.load(text)


def found(machine: Machine, module: Module, kernel: str, x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """What one thread finds in these values."""
    for tensor in (out, x):
        machine.allow(tensor.data_ptr(), tensor.numel() * tensor.element_size(), kernel)
    arguments = [struct.pack("Q", out.data_ptr()), struct.pack("Q", x.data_ptr())]
    report = module.launch(kernel, (1, 1, 1), (1, 1, 1), [*arguments, struct.pack("i", len(x) // 4)])
    assert not report.findings
    return out


@pytest.mark.parametrize("row", ROWS)
def test_sums_of_exponentials(machine: Machine, module: Module, row: str) -> None:
    x = torch.tensor(ROWS[row], dtype=torch.float32)
    out = found(machine, module, "exponentials", x, torch.zeros(2))
    torch.testing.assert_close(out, torch.logsumexp(x, 0).expand(2), equal_nan=True)


@pytest.mark.parametrize("length", [5, 17, 73, 401])
@pytest.mark.parametrize(("mean", "spike"), [(0, 0), (1e4, 0), (-3e5, 0), (0, 1e5), (50, -1e4)])
def test_moments(machine: Machine, module: Module, length: int, mean: float, spike: float) -> None:
    """Far from zero, and with single values far from the others, the first of all among them."""
    x = torch.randn(length, generator=torch.Generator().manual_seed(1)) + mean
    x[:: length // 2] += spike
    total, squares = found(machine, module, "moments", x, torch.zeros(2, dtype=torch.float64)) / length
    exact = x.double()
    center, variance = exact.mean(), exact.var(correction=0)
    assert abs(total - center) < 1e-6 * variance.sqrt()
    assert abs(squares - total**2 - variance) < 2e-6 * variance + 1e-15 * center**2
