"""Random straight-line programs against plain Python, and mangled texts that must not bring it down."""

import random
import struct

import numpy as np
import pytest
import torch

from kernelblaster.errors import KernelBlasterError
from kernelblaster.ptx.machine import Machine
from kernelblaster.testing.mangle import mangled

LANES = 64
REGISTERS = 8
MASK = 0xFFFFFFFF


def signed(v: int) -> int:
    return v - (1 << 32) if v >> 31 else v


INTEGER = {
    "add.u32": lambda a, b: (a + b) & MASK,
    "sub.s32": lambda a, b: (a - b) & MASK,
    "mul.lo.u32": lambda a, b: (a * b) & MASK,
    "mul.hi.u32": lambda a, b: (a * b) >> 32,
    "mul.hi.s32": lambda a, b: ((signed(a) * signed(b)) >> 32) & MASK,
    "and.b32": lambda a, b: a & b,
    "or.b32": lambda a, b: a | b,
    "xor.b32": lambda a, b: a ^ b,
    "min.s32": lambda a, b: min(signed(a), signed(b)) & MASK,
    "max.u32": max,
    "shl.b32": lambda a, b: (a << b) & MASK if b < 32 else 0,
    "shr.u32": lambda a, b: a >> b if b < 32 else 0,
    "shr.s32": lambda a, b: (signed(a) >> min(b, 31)) & MASK,
    "div.u32": lambda a, b: a // b if b else MASK,
}
FLOAT = {
    "add.rn.f32": lambda a, b: a + b,
    "sub.rn.f32": lambda a, b: a - b,
    "mul.rn.f32": lambda a, b: a * b,
    "div.rn.f32": lambda a, b: a / b,
    "min.f32": np.fmin,
    "max.f32": np.fmax,
}


def program(kind: str, operations: list[tuple[str, int, int, int]]) -> str:
    letter, move = ("r", "u32") if kind == "integer" else ("f", "f32")
    lines = [".version 8.0", ".target sm_80", ".address_size 64"]
    lines += [
        ".visible .entry k(.param .u64 k_0)",
        "{",
        f".reg .{'b' if letter == 'r' else 'f'}32 %{letter}<9>;",
    ]
    lines += [".reg .b32 %t<2>;", ".reg .b64 %a<3>;", "ld.param.u64 %a0, [k_0];", "mov.u32 %t0, %tid.x;"]
    lines += [f"mul.wide.u32 %a1, %t0, {4 * REGISTERS};", "add.s64 %a2, %a0, %a1;"]
    lines += [f"ld.global.{move} %{letter}{i}, [%a2+{4 * i}];" for i in range(REGISTERS)]
    lines += [f"{op} %{letter}{d}, %{letter}{a}, %{letter}{b};" for op, d, a, b in operations]
    lines += [f"st.global.{move} [%a2+{4 * i}], %{letter}{i};" for i in range(REGISTERS)]
    return "\n".join([*lines, "ret;", "}", ""])


def run(text: str, memory: torch.Tensor) -> None:
    with Machine() as machine:
        machine.allow(memory.data_ptr(), memory.numel() * 4, "memory")
        module = machine.load(text)
        assert module.unsupported("k") is None, module.unsupported("k")
        report = module.launch("k", (1, 1, 1), (LANES, 1, 1), [struct.pack("Q", memory.data_ptr())])
        assert not report.findings


def random_operations(rng: random.Random, table: dict) -> list[tuple[str, int, int, int]]:  # type: ignore[type-arg]
    names = list(table)
    return [(rng.choice(names), *(rng.randrange(REGISTERS) for _ in range(3))) for _ in range(60)]


@pytest.mark.parametrize("seed", range(20))
def test_integer_programs(compiler: str, seed: int) -> None:
    rng = random.Random(seed)
    operations = random_operations(rng, INTEGER)
    start = [
        [rng.choice((rng.getrandbits(32), rng.randrange(40))) for _ in range(REGISTERS)] for _ in range(LANES)
    ]
    memory = torch.tensor(start, dtype=torch.int64).to(torch.int32)
    run(program("integer", operations), memory)
    for lane, values in enumerate(start):
        for name, d, a, b in operations:
            values[d] = INTEGER[name](values[a], values[b])
        assert [v & MASK for v in memory[lane].tolist()] == values


@pytest.mark.parametrize("seed", range(20))
def test_float_programs(compiler: str, seed: int) -> None:
    rng = random.Random(seed)
    operations = random_operations(rng, FLOAT)
    start = np.array([[rng.uniform(-4, 4) for _ in range(REGISTERS)] for _ in range(LANES)], dtype=np.float32)
    memory = torch.from_numpy(start.copy())
    run(program("float", operations), memory)
    columns = [start[:, i].copy() for i in range(REGISTERS)]
    with np.errstate(all="ignore"):
        for name, d, a, b in operations:
            columns[d] = FLOAT[name](columns[a], columns[b]).astype(np.float32)
    assert np.array_equal(memory.numpy(), np.stack(columns, 1), equal_nan=True)


def test_mangled_texts_are_refused_or_run_safely(compiler: str) -> None:
    rng = random.Random(7)
    memory = torch.zeros(LANES * REGISTERS, dtype=torch.int32)
    loaded = 0
    for _ in range(1500):
        text = mangled(program("integer", random_operations(rng, INTEGER)), rng)
        with Machine() as machine:
            machine.allow(memory.data_ptr(), memory.numel() * 4, "memory")
            try:
                module = machine.load(text)
                loaded += 1
                for kernel in module.kernels:
                    pointers = [struct.pack("Q", memory.data_ptr()) for _ in module.parameters(kernel)]
                    module.launch(kernel, (1, 1, 1), (LANES, 1, 1), pointers, budget=10_000)
            except KernelBlasterError:
                pass
    assert loaded > 50
