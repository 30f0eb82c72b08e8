"""Wavefronts and bank conflicts of shared loads by pattern, by the rules of the CUDA programming guide: 32
banks of 4 bytes, a half warp at 8 bytes a lane, a quarter warp at 16, one address to any number of lanes."""

import pytest

from kernelblaster.ptx.machine import Machine

PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry pattern(.param .u64 out)
{
  .reg .b32 %r<6>; .reg .f32 %f<5>; .reg .b64 %d<3>; .reg .pred %p;
  .shared .align 16 .b8 tile[16384];
  mov.u32 %r1, %tid.x;
  MASK
  and.b32 %r2, %r1, AND;
  mul.lo.u32 %r2, %r2, STRIDE;
  mov.u32 %r3, tile;
  add.u32 %r3, %r3, %r2;
  @%p LOAD;
  ret;
}
"""
LOADS = {
    4: "ld.shared.f32 %f1, [%r3]",
    8: "ld.shared.v2.f32 {%f1, %f2}, [%r3]",
    16: "ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r3]",
}
PATTERNS = {  # bytes a lane, lanes that differ, stride in bytes, active lanes: wavefronts, conflicts
    "words in a row": (4, 31, 4, 32, 1, 0),
    "one word for all": (4, 0, 4, 32, 1, 0),
    "every second word": (4, 31, 8, 32, 2, 1),
    "one bank": (4, 31, 128, 32, 32, 31),
    "two words of one bank": (4, 1, 128, 32, 2, 1),
    "float2 in a row": (8, 31, 8, 32, 2, 0),
    "one float2 for all": (8, 0, 8, 32, 2, 0),
    "every second float2": (8, 31, 16, 32, 4, 2),
    "float4 in a row": (16, 31, 16, 32, 4, 0),
    "one float4 for all": (16, 0, 16, 32, 4, 0),
    "two float4 in a row for all": (16, 1, 16, 32, 4, 0),
    "two float4 of the same banks": (16, 1, 128, 32, 8, 4),
    "every second float4": (16, 31, 32, 32, 8, 4),
    "a float4 of each row of 32 words": (16, 31, 128, 32, 32, 28),
    "one float4 for eight lanes": (16, 0, 16, 8, 1, 0),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_conflicts_are_wavefronts_beyond_what_the_width_needs(name: str) -> None:
    size, differing, stride, active, wavefronts, conflicts = PATTERNS[name]
    text = PTX.replace("MASK", f"setp.lt.u32 %p, %r1, {active};").replace("AND", str(differing))
    text = text.replace("STRIDE", str(stride)).replace("LOAD", LOADS[size])
    with Machine() as machine:
        counts = machine.load(text).launch("pattern", (1, 1, 1), (32, 1, 1), [bytes(8)]).counts
    assert counts["shared_load_requests"] == 1
    assert (counts["shared_load_wavefronts"], counts["shared_bank_conflicts"]) == (wavefronts, conflicts)
