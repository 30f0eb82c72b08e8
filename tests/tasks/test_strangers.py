"""Inputs and results as people write them who have never seen this project: taken, or refused in a sentence
that says what to do."""

import pytest

from kernelblaster.errors import BadTask
from kernelblaster.policies.expert.capture import capture
from kernelblaster.policies.expert.graph import UncoveredOperators
from kernelblaster.records import Task
from kernelblaster.tasks.catalog import load_source
from kernelblaster.tasks.fitness import fitness_of

TASK = """
import torch
from typing import NamedTuple, Optional

class Out(NamedTuple):
    values: torch.Tensor
    aux: Optional[torch.Tensor] = None

class Model(torch.nn.Module):
    def forward(self, x, {arguments}):
        {forward}

def get_inputs():
    {inputs}

def get_init_inputs():
    return []
"""
X = "torch.randn(16, 24)"


def loaded(inputs: str, forward: str = "return x * 2", arguments: str = "*rest") -> Task:
    return load_source("t", TASK.format(inputs=inputs, forward=forward, arguments=arguments), "t.py")


@pytest.mark.parametrize("inputs", [f"yield {X}", f"return iter([{X}])", f"return (a for a in [{X}])"])
def test_inputs_may_be_yielded(inputs: str) -> None:
    assert fitness_of(loaded(inputs)).fit


def test_strings_and_none_among_the_inputs_are_part_of_the_module() -> None:
    forward = "return x.softmax(dims) if mode == 'soft' and eps is None else x"
    task = loaded(f"yield {X}\n    yield 'soft'\n    yield None", forward, "mode, eps, dims=-1")
    assert [item.name for item in task.signature.inputs] == ["x"] and fitness_of(task).fit
    assert any("softmax" in node.operator for node in capture(task).nodes)


@pytest.mark.parametrize("call", ["super(Model, self).__init__()", "super( Model , self ).__init__()"])
def test_inputs_by_name_go_with_a_class_that_names_itself(call: str) -> None:
    text = TASK.format(
        inputs=f"return {{'x': {X}, 'y': {X}}}", forward="return x * self.scale - y", arguments="*, y"
    )
    built = f"    def __init__(self, scale):\n        {call}\n        self.scale = scale\n\n    def forward"
    text = text.replace("    def forward", built).replace("return []", "return [3.0]")
    task = load_source("t", text, "t.py")
    assert [one.name for one in task.signature.inputs] == ["x", "y"] and fitness_of(task).fit


def test_results_may_hold_none() -> None:
    task = loaded(f"return [{X}]", "return Out(x.exp()), None")
    assert len(task.signature.outputs) == 1 and fitness_of(task).fit
    assert len(capture(task).outputs) == 1


@pytest.mark.parametrize("single", ["torch.tensor(2.0)", "torch.rand(1) + 0.5", "torch.full((1, 1), -3.0)"])
def test_an_input_with_a_single_element_is_varied(single: str) -> None:
    task = loaded(f"return [{X}, {single}]", "return x / temperature", "temperature")
    assert fitness_of(task).fit


def test_an_input_with_one_value_is_told_from_one_that_is_not_read() -> None:
    [constant] = fitness_of(loaded(f"return [{X}, torch.ones(16, 1)]", "return x * m", "m")).problems
    [unread] = fitness_of(loaded(f"return [{X}, torch.rand(16, 1)]", "return x * 2", "m")).problems
    assert "m is 1 everywhere in get_inputs()" in constant and "draw its values" in constant
    assert unread == "insensitive: the output does not depend on input m"


@pytest.mark.parametrize(
    ("inputs", "forward", "words"),
    [
        (f"return {{{X}}}", "return x", "returns a set; return a list, or a dict by name"),
        (f"return [{X}, object()]", "return x", "Make what it holds a part of the module, or give its parts"),
        (f"return [{X}]", "return x, 'done'", "returned str; it must return tensors, alone or in tuples"),
    ],
)
def test_what_is_refused_says_what_to_do(inputs: str, forward: str, words: str) -> None:
    with pytest.raises(BadTask) as caught:
        loaded(inputs, forward)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_writes_that_cannot_be_followed_are_named() -> None:
    padded = "return torch.nn.utils.rnn.pad_sequence([x, *rest], batch_first=True)"
    task = loaded(f"return [{X}, torch.randn(12, 24)]", padded)
    with pytest.raises(UncoveredOperators, match=r"copy_.* writes a tensor in place"):
        capture(task)
