"""Judged kernels of earlier searches in a prompt: short, as data, without where they lay on a machine."""

from types import SimpleNamespace
from typing import Any

from kernelblaster.knowledge.exemplar import Exemplar
from kernelblaster.policies.llm.exemplar_view import TOKENS, exemplar_pieces
from tests.policies.llm.played import FUSED


def exemplar(**changed: Any) -> Any:
    given = {
        "source": FUSED,
        "techniques": ("kernel_fusion",),
        "family": "scan",
        "architecture": "sm_90a",
        "task": "core/level1/relu",
        "reach": 0.5,
        "summary": "One kernel.",
    }
    return SimpleNamespace(exemplar=Exemplar(**{**given, **changed}), state="dram-bandwidth")


def shown(*given: Any) -> list[str]:
    around: Any = SimpleNamespace(exemplars=lambda family, techniques, left_out: list(given))
    return [piece.text for piece in exemplar_pieces(around, "scan", ("kernel_fusion",), "")]


def test_an_exemplar_is_data_under_what_it_is() -> None:
    [text] = shown(exemplar())
    assert text.startswith(
        "core/level1/relu, 0.50 of its floor's speed on sm_90a, from dram-bandwidth by kernel_fus"
    )
    assert "One kernel." in text and FUSED.strip() in text and "</data" in text


def test_folders_of_a_machine_are_not_shown() -> None:
    [text] = shown(exemplar(task="/home/someone/my_scan.py"))
    assert text.startswith("my_scan, ") and "someone" not in text


def test_two_at_most_and_none_that_is_long() -> None:
    long = "__global__ void k(float* x) {" + "  x[0] += 1.0f;\n" * TOKENS + "}\n"
    assert len(shown(exemplar(source=long), exemplar(), exemplar(), exemplar())) == 2
