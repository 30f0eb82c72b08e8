"""Device functions on their own, on the PTX machine: what values of all kinds give."""

import math
import struct
import subprocess
from pathlib import Path

import pytest
import torch

from kernelblaster.policies.expert.device_code import device_code
from kernelblaster.ptx.machine import Machine

KERNEL = """
extern "C" __global__ void both(float* out, const float* x, int packs) {
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
"""
INF, NAN = math.inf, math.nan
ROWS = {
    "usual": [0.5, -3, 2, 8, 1, 1, -7, 3],
    "large": [88, 1000, 999, -1000, 1000, 5, 6, 7],
    "the largest last": [-90, -80, -70, -60, -50, -40, 0, 90],
    "lowest": [-INF] * 8,
    "lowest at first": [*[-INF] * 4, 1, -INF, 2, 3],
    "lowest in between": [1, 2, -INF, 3, *[-INF] * 4],
    "infinite": [1, 2, INF, 3, INF, 4, 5, 6],
    "no number first": [NAN, 1, 2, 3, 4, 5, 6, 7],
    "no number later": [0, 1, 2, 3, 4, NAN, 6, -INF],
}


@pytest.fixture(scope="module")
def text(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("device-code")
    (folder / "k.cu").write_text(device_code("exponentials") + KERNEL)
    command = [compiler, "-O3", "-arch=compute_80", "-ptx", "k.cu", "-o", "k.ptx"]
    subprocess.run(command, cwd=folder, check=True)
    return (folder / "k.ptx").read_text()


@pytest.mark.parametrize("row", ROWS)
def test_sums_of_exponentials(text: str, row: str) -> None:
    x, out = torch.tensor(ROWS[row], dtype=torch.float32), torch.zeros(2)
    with Machine() as machine:
        for tensor, name in ((out, "out"), (x, "x")):
            machine.allow(tensor.data_ptr(), tensor.numel() * 4, name)
        arguments = [struct.pack("Q", out.data_ptr()), struct.pack("Q", x.data_ptr())]
        report = machine.load(text).launch(
            "both", (1, 1, 1), (1, 1, 1), [*arguments, struct.pack("i", len(x) // 4)]
        )
    assert not report.findings
    expected = torch.logsumexp(x, 0).expand(2)
    torch.testing.assert_close(out, expected, equal_nan=True)
