"""Proofs, tasks, candidates and settings that cannot be are refused with a sentence."""

import json
from pathlib import Path
from typing import Any

import pytest

from kernelblaster.api import load_candidate
from kernelblaster.bench.suite import ranges
from kernelblaster.errors import KernelBlasterError
from kernelblaster.proof import read_proof
from kernelblaster.settings import settings
from kernelblaster.tasks.catalog import load_file

PROOF: dict[str, Any] = {
    "task_name": "t",
    "task_source": "",
    "task_digest": "0",
    "task_suffix": ".py",
    "candidate_source": "",
    "candidate_defines": [],
    "software": {},
    "cases": [],
    "evaluation": {
        "task": "t",
        "candidate": "c",
        "device": "d",
        "outcome": {"kind": "TimedOut", "stage": "compile", "limit_s": 1},
        "seconds": 1,
    },
    "checked": [],
    "unchecked": [],
}


def proof(**changes: Any) -> bytes:
    return json.dumps({**PROOF, **changes}).encode()


PROOFS: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "is not JSON"),
    "not UTF-8": (b"\xff", "is not UTF-8"),
    "a list": (b"[]", "not a proof"),
    "nested deep": (b"[" * 100_000, "nested deeper"),
    "NaN": (proof().replace(b'"seconds": 1', b'"seconds": NaN'), "NaN"),
    "another format": (proof(format=2), "format"),
    "a suffix that is a path": (proof(task_suffix="/../../../tmp/x.py"), "task_suffix"),
    "a define that is code": (proof(candidate_defines=[["X 1\nint main", 1]]), "candidate_defines"),
    "a define that is no number": (proof(candidate_defines=[["X", "y"]]), "candidate_defines"),
    "cases of the wrong kind": (proof(cases=[{"workload": 7}]), "workload"),
    "no verdict": (proof(evaluation={"outcome": 1}), "evaluation"),
    "an unknown field": (proof(also=1), "also"),
}


@pytest.mark.parametrize("name", PROOFS)
def test_a_hostile_proof_is_refused(name: str, tmp_path: Path) -> None:
    data, expected = PROOFS[name]
    (tmp_path / "proof.json").write_bytes(data)
    with pytest.raises(KernelBlasterError, match=expected) as caught:
        read_proof(tmp_path / "proof.json")
    assert len(str(caught.value)) < 500


def test_the_same_proof_without_a_fault_is_read(tmp_path: Path) -> None:
    (tmp_path / "proof.json").write_bytes(proof())
    assert read_proof(tmp_path / "proof.json").task_name == "t"


MODULE = b"""
import torch
n = 4
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2
def get_inputs():
    return [torch.rand(n, 8)]
def get_init_inputs():
    return []
"""
CUDA = "// kernelblaster-task\n// size: n = {}\n// input: x float32 [n]\n// output: y float32 [n]\n"
TASKS: dict[str, tuple[str, bytes]] = {
    "nul": ("t.py", b"x = 1\x00"),
    "not UTF-8": ("t.py", b"x = '\xff'"),
    "too deep to parse": ("t.py", b"x = " + b"(" * 5000 + b")" * 5000),
    "5 MB": ("t.py", b"#" * (5 << 20)),
    "sizes that are a number": ("t.py", MODULE + b"SMALL = 7\n"),
    "sizes that are texts": ("t.py", MODULE + b"SMALL = {'n': 'x'}\n"),
    "a size of 5000 digits": ("t.cu", CUDA.format("9" * 5000).encode()),
    "a size of zero": ("t.cu", CUDA.format("0").encode()),
    "no size": ("t.cu", CUDA.format("many").encode()),
}


@pytest.mark.parametrize("name", TASKS)
def test_a_hostile_task_is_refused(name: str, tmp_path: Path) -> None:
    file, data = TASKS[name]
    (tmp_path / file).write_bytes(data)
    with pytest.raises(KernelBlasterError, match=file) as caught:
        load_file("t", tmp_path / file)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("value", ["soon", "nan", "inf", "-1", "0", "1e99"])
def test_a_limit_that_is_none_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELBLASTER_CALL_LIMIT", value)
    with pytest.raises(KernelBlasterError, match="KERNELBLASTER_CALL_LIMIT"):
        settings()


def test_more_problems_than_a_suite_can_have_are_refused() -> None:
    with pytest.raises(KernelBlasterError, match="so many"):
        ranges("1-99999999999")


def test_a_candidate_of_megabytes_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "c.cu").write_bytes(b" " * (5 << 20))
    with pytest.raises(KernelBlasterError, match="larger than 4 MB"):
        load_candidate(tmp_path / "c.cu")
