"""Modules at hand and exported programs as tasks."""

from pathlib import Path

import pytest
import torch
from torch import nn

from kernelblaster.errors import BadTask
from kernelblaster.policies.expert.capture import capture
from kernelblaster.tasks.catalog import load_source, load_task
from kernelblaster.tasks.fitness import fitness_of
from kernelblaster.tasks.module_file import ModuleFile
from kernelblaster.tasks.torch_programs import task_from_module


class Block(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(dim)
        self.layers = nn.ModuleList([nn.Linear(dim, dim) for _ in range(2)])
        self.register_buffer("mask", torch.ones(dim, dim).tril().bool(), persistent=False)
        self.scale = torch.tensor([2.0])

    def forward(self, x: torch.Tensor, *, shift: torch.Tensor) -> dict[str, torch.Tensor]:
        for layer in self.layers:
            x = torch.relu(layer(self.norm(x)))
        scores = x.T @ x
        return {"sum": (x + shift) * self.scale, "scores": scores.masked_fill(~self.mask, 0.0)}


def test_an_instance_is_a_task_that_stands_alone() -> None:
    block = Block(128).eval()
    inputs = {"x": torch.randn(2048, 128), "shift": torch.rand(128)}
    task = task_from_module(block, inputs)
    assert task.name == "Block" and fitness_of(task).fit
    assert task.small is not None and task.small.total_bytes(task.signature) < 1 << 20
    assert load_source("again", task.source, "<again>").signature == task.signature

    made = ModuleFile(task.source, task.path).build()
    made.load_state_dict(block.state_dict())
    with torch.no_grad():
        wanted, got = block(**inputs), made(inputs["x"], inputs["shift"])
    assert got.keys() == wanted.keys()
    for key in wanted:
        torch.testing.assert_close(got[key], wanted[key])


def test_inputs_by_name_are_taken_in_the_order_of_forward() -> None:
    class Minus(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return a - b

    task = task_from_module(Minus(), {"b": torch.randn(64, 64), "a": torch.randn(64, 64)})
    assert "def forward(self, a, b):" in task.source


def test_numbers_that_were_given_by_name_may_be_given_again() -> None:
    class Scaled(nn.Module):
        def forward(
            self, x: torch.Tensor, mask: torch.Tensor | None = None, *, alpha: float = 1.0, how: str = "plus"
        ) -> torch.Tensor:
            return x * alpha + (0 if mask is None else mask) + len(how)

    x = torch.randn(64, 64)
    task = task_from_module(Scaled(), {"x": x, "alpha": 0.5, "mask": None, "how": "minus"})
    assert "def forward(self, x, *, mask=None, alpha=0.5, how='minus'):" in task.source
    assert [one.name for one in task.signature.inputs] == ["x"] and fitness_of(task).fit
    made = ModuleFile(task.source, task.path).build()
    assert torch.equal(made(x), made(x, alpha=0.5, how="minus", mask=None))
    for named in ({"alpha": 0.25}, {"mask": x}, {"how": "plus"}):
        with pytest.raises(TypeError, match=r"was exported with \w+=.*, and does nothing else"):
            made(x, **named)


def test_writes_into_a_slice_are_followed() -> None:
    class Written(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(64, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x.clone()
            y[:, :1] = self.first(x)
            return y

    assert capture(task_from_module(Written(), [torch.randn(64, 64)])).nodes


def test_a_tensor_that_is_given_twice_is_two_inputs() -> None:
    x = torch.randn(4, 32, 64)
    task = task_from_module(nn.MultiheadAttention(64, 4, batch_first=True).eval(), [x, x, x])
    assert [one.name for one in task.signature.inputs] == ["query", "key", "value"] and fitness_of(task).fit


def test_types_of_an_instance_are_kept() -> None:
    task = task_from_module(nn.Linear(64, 64).bfloat16(), [torch.randn(4096, 64).bfloat16()])
    assert task.dtype == "bfloat16" and task.cast is None


def test_a_class_is_built_without_arguments() -> None:
    assert task_from_module(nn.GELU, [torch.randn(1024, 1024)]).name == "GELU"
    with pytest.raises(BadTask, match="give an instance instead of the class"):
        task_from_module(nn.Linear, [torch.randn(4, 4)])


def test_a_forward_that_reads_values_is_refused() -> None:
    class Reads(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if x.sum() > 0 else x

    with pytest.raises(BadTask, match="Reads: forward\\(\\) reads the values of a tensor"):
        task_from_module(Reads(), [torch.randn(64, 64)])


def test_an_exported_program_is_a_task(tmp_path: Path) -> None:
    file = tmp_path / "norm.pt2"
    torch.export.save(torch.export.export(nn.LayerNorm(256), (torch.randn(64, 256),)), file)
    task = load_task(str(file))
    assert [t.name for t in task.signature.parameters] == ["weight", "bias"]
    file.write_bytes(b"no program")
    with pytest.raises(BadTask, match="is no exported program"):
        load_task(str(file))


def test_a_compiled_instance_is_taken_as_it_was_before() -> None:
    compiled = torch.compile(torch.nn.ReLU())
    assert task_from_module(compiled, [torch.randn(64, 32)]).name == "ReLU"  # type: ignore[arg-type]


def test_a_single_tensor_is_no_list_of_inputs() -> None:
    with pytest.raises(BadTask, match=r"are a list, or a dict by name: inputs=\[x\], not inputs=x"):
        task_from_module(nn.ReLU(), torch.randn(64, 64))  # type: ignore[arg-type]


def test_a_function_is_no_module() -> None:
    with pytest.raises(
        BadTask, match=r"function: is not a torch\.nn\.Module; call it in the forward\(\) of one\."
    ):
        task_from_module(lambda x: x.relu(), [torch.randn(64, 64)])  # type: ignore[arg-type]


def test_nothing_is_printed_of_a_module_that_reads_values(capfd: pytest.CaptureFixture[str]) -> None:
    class Reads(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > 0 else -x

    with pytest.raises(BadTask, match=r"reads the values of a tensor.*choose with torch\.where"):
        task_from_module(Reads(), [torch.randn(64, 64)])
    assert capfd.readouterr() == ("", "")
