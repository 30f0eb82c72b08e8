"""What the soft verifier sees of a candidate with inline PTX: the instructions, and all code after them."""

import re
from pathlib import Path

import pytest

from kernelblaster.policies.llm.neutral import neutral
from kernelblaster.policies.llm.structure import structure
from tests.policies.llm.played import FUSED
from tests.policies.llm.scenes import relu

HONEST = Path(__file__).parents[2] / "exploits" / "honest"
SEMICOLONS = 'asm volatile("{ .reg .pred p; setp.lt.f32 p, %1, 0f00000000; selp.f32 %0, 0f00000000, %1, p; }"'
WITH_PTX = [
    SEMICOLONS + ' : "=f"(y) : "f"(v));',
    '__asm__ __volatile__("max.f32 %0, %1, 0f00000000;\\n\\tmov.b32 %0, %0;" : "=f"(y) : "f"(v));',
    'asm volatile(R"(setp.lt.f32 p, %1, 0f00000000; // "as it is"\n selp.f32 %0, 0f0, %1, p;)" : "=f"(y));',
    'asm("add.f32 %0, %1, %1;"\n    "neg.f32 %0, %0;" : "=f"(y) : "f"(v)); printf("done; \\"all\\"");',
]


def with_ptx(statement: str) -> str:
    helper = f"__device__ float clip(float v) {{\n  float y;\n  {statement}\n  return y;\n}}\n"
    return FUSED.replace("__global__", helper + "__global__", 1)


@pytest.mark.parametrize("statement", WITH_PTX)
def test_inline_ptx_and_what_follows_it_is_seen(statement: str) -> None:
    shown = neutral(with_ptx(statement))
    for mnemonic in re.findall(r"(?:setp|selp|max|mov|add|neg)\.\w+\.?\w*", statement):
        assert mnemonic in shown
    assert "done" not in shown and "as it is" not in shown
    plain = neutral(FUSED).replace("kernel_1", "kernel").replace("name_1", "name")
    tail = plain[plain.index("launch_gpu_implementation") :]
    assert tail in shown.replace("kernel_2", "kernel").replace("name_2", "name")


def test_rules_read_what_follows_inline_ptx() -> None:
    source = with_ptx(SEMICOLONS + ' : "=f"(y) : "f"(v));') + "\nvoid late() { cublasSgemm(); }\n"
    kinds = {finding.kind for finding in structure(relu()[0].task, source)}
    assert "forbidden-library" in kinds and "no-work" not in kinds


def test_code_of_honest_kernels_is_all_there() -> None:
    """No brace and no instruction is lost."""
    assembly = re.compile(r"\b(?:__)?asm(?:__)?\b")
    for path in sorted(HONEST.glob("*.cu")):
        shown = neutral(path.read_text())
        assert shown.count("{") == shown.count("}"), path
        stripped = re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        assert len(assembly.findall(shown)) == len(assembly.findall(stripped)), path
