"""Cache policies and hints: they change no value, and every spelling of them is understood."""

import struct
import subprocess
from pathlib import Path

import torch

from kernelblaster.ptx.machine import Machine

SOURCE = """
extern "C" __global__ void hints(float* out, const float* x) {
  unsigned long long last, half, range, plain;
  asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(last));
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0;" : "=l"(plain));
  asm volatile("createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %0, 0.5;" : "=l"(half));
  asm volatile("createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 %0, [%1], 128, 256;"
               : "=l"(range) : "l"(x));
  asm volatile("createpolicy.cvt.L2.b64 %0, 0x1000;" : "=l"(plain));
  float a, b, c;
  asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(a) : "l"(x), "l"(last));
  asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.L2::256B.f32 %0, [%1], %2;"
               : "=f"(b) : "l"(x + 1), "l"(half));
  asm volatile("ld.global.L1::evict_last.f32 %0, [%1];" : "=f"(c) : "l"(x + 2));
  asm volatile("prefetch.global.L1 [%0];" ::"l"(x));
  asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(x));
  asm volatile("prefetchu.L1 [%0];" ::"l"(x));
  asm volatile("applypriority.global.L2::evict_normal [%0], 128;" ::"l"(x));
  asm volatile("discard.global.L2 [%0], 128;" ::"l"(out + 32));
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], 128;" ::"l"(x));
  asm volatile("st.global.L2::cache_hint.f32 [%0], %1, %2;" ::"l"(out), "f"(a + b + c), "l"(range));
  asm volatile("red.global.add.L2::cache_hint.f32 [%0], %1, %2;" ::"l"(out + 1), "f"(1.5f), "l"(plain));
}
"""


def _aligned(values: torch.Tensor) -> torch.Tensor:
    """The values at a multiple of 128 bytes, as device memory begins and `discard` demands."""
    room = torch.zeros(values.numel() + 32)
    begin = -room.data_ptr() % 128 // 4
    return room[begin : begin + values.numel()].copy_(values)


def test_hints_change_nothing(compiler: str, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(SOURCE)
    command = [compiler, "-O3", "-lineinfo", "-arch=compute_90", "-ptx", "k.cu", "-o", "k.ptx"]
    subprocess.run(command, cwd=tmp_path, check=True)
    x, out = _aligned(torch.arange(64).float()), _aligned(torch.zeros(64))
    with Machine() as machine:
        for tensor, name in ((out, "out"), (x, "x")):
            machine.allow(tensor.data_ptr(), tensor.nbytes, name)
        arguments = [struct.pack("Q", t.data_ptr()) for t in (out, x)]
        report = machine.load((tmp_path / "k.ptx").read_text()).launch(
            "hints", (1, 1, 1), (1, 1, 1), arguments
        )
    assert not report.findings
    assert out[:2].tolist() == [3.0, 1.5]
