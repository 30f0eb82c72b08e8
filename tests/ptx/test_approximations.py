"""Approximate functions: within the error that PTX documents, and no better than hardware."""

import struct
import subprocess
from pathlib import Path

import pytest
import torch

from kernelblaster.ptx.machine import Machine

ONE = """
extern "C" __global__ void {name}_f32(float* out, const float* x) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  asm("{name}.approx.f32 %0, %1;" : "=f"(out[i]) : "f"(x[i]));
}}
"""
HALF = """
extern "C" __global__ void {name}_{type}(unsigned short* out, const unsigned short* x) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  asm("{name}.approx.{form} %0, %1;" : "=h"(out[i]) : "h"(x[i]));
}}
"""
COUNT = 4096
EXACT = {"tanh": torch.tanh, "sin": torch.sin, "cos": torch.cos, "lg2": torch.log2, "ex2": torch.exp2}
# function: arguments from, to; the largest error as documented and the least that must be seen, as powers of
# two; whether it is relative to the result
COARSE = {
    "tanh": (0.3, 1.5, -11, -12, True),
    "sin": (1e-6, 1e-5, -20.5, -23, False),
    "cos": (100.0, 314.0, -14.7, -17, False),
    "lg2": (0.99, 1.01, -22, -24, False),
}
HALVES = {"f16": (torch.float16, "f16", -9.9, -11), "bf16": (torch.bfloat16, "bf16", -7, -8)}


@pytest.fixture(scope="module")
def text(compiler: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("approximate")
    source = "".join(ONE.format(name=name) for name in COARSE)
    for kind in HALVES:
        source += HALF.format(name="tanh", type=kind, form=kind)
        source += HALF.format(name="ex2", type=kind, form="ftz.bf16" if kind == "bf16" else kind)
    (folder / "k.cu").write_text(source)
    command = [compiler, "-O3", "-arch=compute_90", "-ptx", "k.cu", "-o", "k.ptx"]
    subprocess.run(command, cwd=folder, check=True)
    return (folder / "k.ptx").read_text()


def run(text: str, kernel: str, x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    with Machine() as machine:
        for tensor, name in ((out, "out"), (x, "x")):
            machine.allow(tensor.data_ptr(), tensor.nbytes, name)
        pointers = [struct.pack("Q", t.data_ptr()) for t in (out, x)]
        report = machine.load(text).launch(kernel, (COUNT // 128, 1, 1), (128, 1, 1), pointers)
    assert not report.findings
    return out


@pytest.mark.parametrize("name", COARSE)
def test_coarse_functions_are_coarse(text: str, name: str) -> None:
    low, high, most, least, relative = COARSE[name]
    x = torch.linspace(low, high, COUNT)
    exact = EXACT[name](x.double())
    error = (run(text, f"{name}_f32", x).double() - exact).abs()
    worst = (error / exact.abs() if relative else error).max().log2().item()
    assert least <= worst <= most


@pytest.mark.parametrize("kind", HALVES)
@pytest.mark.parametrize("name", ["tanh", "ex2"])
def test_halves_are_off_by_a_unit(text: str, name: str, kind: str) -> None:
    dtype, _, most, least = HALVES[kind]
    x = torch.linspace(0.1, 3, COUNT).to(dtype)
    exact = EXACT[name](x.double())
    worst = ((run(text, f"{name}_{kind}", x).double() - exact) / exact).abs().max().log2().item()
    assert least <= worst <= most


def test_the_same_argument_gives_the_same_result(text: str) -> None:
    x = torch.linspace(-4, 4, COUNT)
    assert torch.equal(run(text, "tanh_f32", x), run(text, "tanh_f32", x))
    assert run(text, "tanh_f32", x).abs().max() <= 1
    assert torch.equal(run(text, "tanh_f32", -x), -run(text, "tanh_f32", x))
