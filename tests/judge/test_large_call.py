"""Which elements of an output a large call counts as unwritten."""

import random
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kernelblaster.devices.device import Arena, CallReport, Slot
from kernelblaster.judge.boxes import Box
from kernelblaster.judge.compare_outputs import OUTPUT_POISONS
from kernelblaster.judge.large_call import LargeCall
from kernelblaster.judge.layout import slot_bytes
from kernelblaster.judge.stop import Stop
from kernelblaster.ptx.machine import Draws
from kernelblaster.records import Incorrect, Signature, Size, Tensor, Workload

OUT = Tensor(name="out", role="output", dtype="float16", dims=("rows",))
SIGNATURE = Signature(inputs=(), parameters=(), outputs=(OUT,), sizes=())
WORKLOAD = Workload(name="above", sizes={"rows": 1000})
# Every value that outputs are filled with before a call, as a number of half precision.
POISONS = torch.tensor([p * 257 - 65536 * (p > 127) for p in OUTPUT_POISONS], dtype=torch.int16)


def large_call(written: int, *, in_turns: bool = False) -> LargeCall:
    """A call whose kernel writes the first elements of the output: right results that look like poison. With
    `in_turns`, every second call writes the last ones instead."""
    size = slot_bytes(SIGNATURE, [WORKLOAD])
    arena = Arena(torch.zeros(sum(size), dtype=torch.uint8), (Slot(0, size[0]),))
    at = SimpleNamespace(scalars=[], with_scalars=lambda _: nullcontext())
    known: Any = SimpleNamespace(
        task=SimpleNamespace(signature=SIGNATURE), baseline=SimpleNamespace(at=lambda _: at)
    )
    names = ("total_warp_instructions", "blocks")
    accesses = ("global_load", "global_store", "shared_load", "shared_store", "local")
    counts = dict.fromkeys((*names, *(f"{name}_requests" for name in accesses)), 1)

    calls: list[int] = []

    def run(*_: object, **__: object) -> CallReport:
        view = made._layout.view(OUT)
        values = POISONS.repeat(1000)[:1000].view(torch.float16)
        if in_turns:
            values[:] = 1
        calls.append(1)
        first = 1000 - written if in_turns and len(calls) % 2 == 0 else 0
        view[first : first + written] = values[first : first + written]
        work: Any = SimpleNamespace(grid=(1, 1, 1), counts=counts)
        return CallReport(error="", violations=(), live_bytes=0, work=(work,))

    runner: Any = SimpleNamespace(draw=lambda *_, **__: None, exhausted=False, call=run)
    device: Any = None
    made = LargeCall(device, known, runner, arena, WORKLOAD, random.Random(1))
    return made


def test_a_right_result_that_looks_like_poison_is_written() -> None:
    assert large_call(1000).run(Draws()).covered == 1


def test_what_no_call_writes_is_found() -> None:
    with pytest.raises(Stop) as stopped:
        large_call(990).run(Draws())
    outcome = stopped.value.outcome
    assert isinstance(outcome, Incorrect) and outcome.reason == "unwritten output"
    assert "1.000% of out was not written" in outcome.evidence


def test_what_is_left_out_in_turns_is_found() -> None:
    """Each call leaves out what the other one writes."""
    with pytest.raises(Stop) as stopped:
        large_call(990, in_turns=True).run(Draws())
    outcome = stopped.value.outcome
    assert isinstance(outcome, Incorrect) and outcome.reason == "unwritten output"


def test_rows_are_those_in_which_every_output_was_written() -> None:
    """Only within the columns of the box, and beside its own rows too."""
    names = ("rows", "cols")
    outputs = [
        Tensor(name=n, role="output", dtype="float32", dims=d) for n, d in (("y", names), ("z", names[:1]))
    ]
    sizes = tuple(Size(name=name, kind="free") for name in names)
    signature = Signature(inputs=(), parameters=(), outputs=tuple(outputs), sizes=sizes)
    workload = Workload(name="primary", sizes={"rows": 9, "cols": 5})
    each = slot_bytes(signature, [workload])
    arena = Arena(torch.zeros(sum(each), dtype=torch.uint8), (Slot(0, each[0]), Slot(each[0], each[1])))
    known: Any = SimpleNamespace(task=SimpleNamespace(signature=signature))
    nothing: Any = None
    call = LargeCall(nothing, known, nothing, arena, workload, random.Random(1))
    for tensor in outputs:
        call._layout.raw(tensor).fill_(call._poison)
    y, z = (call._layout.view(tensor) for tensor in outputs)
    y[2, 1] = y[4, 3] = y[6] = y[7, 0] = y[8, 3] = 1
    z[torch.tensor([2, 3, 4, 6, 7])] = 1
    box = Box(workload, {"rows": torch.tensor([0, 1]), "cols": torch.tensor([1, 3])}, "rows")
    assert call.written_rows(box).tolist() == [2, 4, 6]
