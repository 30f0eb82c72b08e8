"""Which of equal elements topk and its like take is open: any is right, and nothing else is."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from kernelblaster.judge.layout import Layout
from kernelblaster.judge.stop import Leash, Stop
from kernelblaster.judge.timing import Timer
from kernelblaster.records import Accepted, Incorrect, Task, Verification
from kernelblaster.records.evaluation import Errors
from kernelblaster.tasks.catalog import load_task
from kernelblaster.testing.fake_device import Body, FakeCall
from tests.judge.conftest import Bench

FILE = """
import torch, torch.nn as nn
rows = 60
cols = 40
class Model(nn.Module):
    def forward(self, x):
        RETURN
def get_inputs():
    return [torch.randn(rows, cols)]
def get_init_inputs():
    return []
"""
K = 6


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Task]:
    def make(body: str) -> Task:
        path: Path = tmp_path_factory.mktemp("task") / "task.py"
        path.write_text(FILE.replace("RETURN", body))
        return load_task(str(path))

    return make


@pytest.fixture(scope="module")
def topk(made: Callable[[str], Task]) -> Task:
    return made(f"return torch.topk(x, {K}, dim=1)")


def chosen(x: torch.Tensor, *, last: bool = True) -> torch.Tensor:
    """Indices that sort every row downwards, of equal elements the last (or the first) before the others."""
    if not last:
        return torch.sort(x, dim=1, descending=True, stable=True)[1]
    return x.shape[1] - 1 - torch.sort(x.flip(1), dim=1, descending=True, stable=True)[1]


def written(places: Callable[[torch.Tensor], torch.Tensor]) -> Body:
    """A candidate with right values and the indices that `places` gives of its input."""

    def body(call: FakeCall) -> None:
        x, (values, indices) = call["x"], (call["out0"], call["out1"])
        values.copy_(torch.topk(x, K, dim=1)[0])
        indices.copy_(places(x)[:, : indices.shape[1]])

    return body


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("last", [True, False])
def test_any_of_equal_elements_is_right(topk: Task, seed: int, last: bool) -> None:
    found = Bench(topk, seed).verify(written(lambda x: chosen(x, last=last)))
    assert isinstance(found, Verification)
    assert all(case.candidate.rms == 0 for case in found.cases if case.output == "out1" and case.candidate)


def repeated(x: torch.Tensor) -> torch.Tensor:
    places = chosen(x)
    ordered = x.gather(1, places)
    same = ordered[:, 1:] == ordered[:, :-1]
    places[:, 1:] = torch.where(same, places[:, :-1], places[:, 1:])
    return places


def neighbouring(x: torch.Tensor) -> torch.Tensor:
    return (chosen(x) + 1).clamp(max=x.shape[1] - 1)


def another_row(x: torch.Tensor) -> torch.Tensor:
    """Right, but counted through the whole tensor."""
    return chosen(x) + x.shape[1] * torch.arange(x.shape[0])[:, None]


def one_wrong(x: torch.Tensor) -> torch.Tensor:
    places = chosen(x)
    places[-1, K - 1] = places[-1, -1]
    return places


@pytest.mark.parametrize(
    "places",
    [
        repeated,
        neighbouring,
        another_row,
        one_wrong,
        lambda x: chosen(x.bfloat16()),  # of nearly equal elements
        lambda x: chosen(x) - x.shape[1],  # as Python counts
        lambda x: torch.zeros_like(chosen(x)),
    ],
)
def test_other_indices_are_refused(topk: Task, places: Callable[[torch.Tensor], torch.Tensor]) -> None:
    for seed in range(2):
        if isinstance(Bench(topk, seed).verify(written(places)), Verification):
            pytest.fail("it was verified")


def test_timed_outputs_are_checked_in_the_same_way(made: Callable[[str], Task]) -> None:
    """With so few distinct values, every timed call has equal elements."""
    task = made(f"return torch.topk((2 * x).round(), {K}, dim=1)")

    def body(call: FakeCall, last: bool = True) -> None:
        x = (2 * call["x"]).round()
        call["out0"].copy_(torch.topk(x, K, dim=1)[0])
        call["out1"].copy_(chosen(x, last=last)[:, : call["out1"].shape[1]])

    assert isinstance(Bench(task).judge(body, 1.0), Accepted)


@pytest.mark.parametrize("kind", ["module", "cuda"])
def test_a_wrong_timed_index_is_not_overwritten_before_it_is_compared(
    topk: Task, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The baseline of a CUDA-source task writes its outputs where the candidate's are."""
    bench = Bench(topk)
    computed = bench.baseline.outputs

    def outputs(layout: Layout) -> list[torch.Tensor]:
        right = computed(layout)
        for tensor, result in zip(topk.signature.outputs, right, strict=True):
            layout.view(tensor).copy_(result)
        return right

    runner = bench.device.start(bench.device.register(written(lambda x: (chosen(x) + 1) % x.shape[1]), 50.0))
    exact = Errors(rms=0, worst=0, tile=0, relative=0, lost=0)
    allowed: dict[str, tuple[Errors, Errors | None]] = {"out0": (exact, None), "out1": (exact, None)}
    timed = topk.model_copy(update={"kind": kind})
    timer = Timer(bench.device, timed, bench.baseline, runner, 1, allowed, Leash(bench.device))
    monkeypatch.setattr(bench.baseline, "outputs", outputs)
    monkeypatch.setattr(timer._rng, "random", lambda: 0.0)  # the candidate runs last
    timer._exact_rounds = 0
    with pytest.raises(Stop) as stopped:
        timer._round()
    assert isinstance(stopped.value.outcome, Incorrect) and "out1" in stopped.value.outcome.evidence


@pytest.mark.parametrize(
    ("text", "mine"),
    [
        ("return torch.sort(x, dim=1, descending=True)[1][:, :9].int()", lambda x: chosen(x)[:, :9]),
        ("return torch.argsort(-x, dim=1)", chosen),
        ("return torch.topk(x.t(), 6, dim=0).indices.t()", lambda x: chosen(x)[:, :6]),
        ("return torch.kthvalue(-x, 2, dim=1, keepdim=True)[1]", lambda x: chosen(x)[:, 1:2]),
        ("return torch.median(-x, dim=1)[1]", lambda x: chosen(x)[:, (x.shape[1] - 1) // 2]),
        ("return torch.softmax(x, 1).topk(3)[1]", lambda x: chosen(torch.softmax(x.double(), 1))[:, :3]),
    ],
)
def test_other_operators_and_views(made: Callable[[str], Task], text: str, mine) -> None:  # type: ignore[no-untyped-def]
    task = made(text)

    def body(call: FakeCall) -> None:
        places = mine(call["x"])
        call["out"].copy_(places[tuple(slice(extent) for extent in call["out"].shape)])

    assert isinstance(Bench(task).verify(body), Verification)


@pytest.mark.parametrize(
    "text",
    [
        "return torch.sort(x, dim=1, descending=True, stable=True)[1]",
        "return torch.argsort(x, dim=1, descending=True, stable=True)",
        "return x.max(1).indices[:, None]",
        "return torch.topk(x, 6, dim=1)[1] + 0",
    ],
)
def test_what_is_not_open_stays_so(made: Callable[[str], Task], text: str) -> None:
    task = made(text)

    def body(call: FakeCall) -> None:
        call["out"].copy_(chosen(call["x"])[:, : call["out"].shape[1]])

    assert isinstance(Bench(task).verify(body), Incorrect)
