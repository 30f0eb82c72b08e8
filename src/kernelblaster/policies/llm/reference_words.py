"""Writes the part of a prompt on what a task computes (its reference source in full, or only the statements
that matter), and words on its baseline and precision."""

import ast
import re

from kernelblaster.judge.operand_rounding import expected_rounding
from kernelblaster.policies.llm.data import data
from kernelblaster.records import Task, Timing
from kernelblaster.records.evaluation import ORIGINAL_KERNEL

INPUTS, CONSTRUCTED = "get_inputs", "get_init_inputs"
PRODUCT = re.compile(
    r"conv|linear|matmul|mm\b|einsum|attention|lstm|gru|rnn|transformer|tensordot|\bdot\b|\bmv\b|\w\s*@\s*\w",
    re.IGNORECASE,
)
MODES = re.compile(r"(batch|instance)_?norm|dropout|training|register_buffer", re.IGNORECASE)


def reference(task: Task) -> str:
    """Returns the task's whole source, marked as data for a prompt."""
    return data(_title(task), task.source)


def computation(task: Task) -> str:
    """Returns the task's source, marked as data for a prompt, without imports and without the code that only
    makes its inputs. It is for prompts that also show a candidate and the sizes. A CUDA source is quoted in
    full."""
    if task.kind != "module":
        return reference(task)
    lines = task.source.splitlines()
    return data(
        _title(task),
        "\n".join("\n".join(lines[_first(n) - 1 : n.end_lineno]) for n in _computing(task.source)),
    )


def rival(task: Task) -> str:
    """Returns what candidates of this task are timed against, in words: PyTorch, or the user's original
    kernel."""
    return "PyTorch" if task.kind == "module" else f"the {ORIGINAL_KERNEL}"


def rival_of(timing: Timing | None) -> str:
    """Returns what the candidate of this timing was timed against, in words: PyTorch, or the user's original
    kernel. PyTorch if `timing` is None."""
    return f"the {ORIGINAL_KERNEL}" if timing and timing.baseline == ORIGINAL_KERNEL else "PyTorch"


def precision(task: Task) -> str:
    """Returns the words on TF32 that end a prompt's sentence against lower precisions: ", nor TF32" or, if
    PyTorch itself uses TF32 for the convolutions of this task, ", nor TF32 (except in convolutions, ...)".
    Empty if the task is not in float32 or has no matrix product."""
    if task.dtype != "float32" or (task.kind == "module" and not PRODUCT.search(task.source)):
        return ""
    if expected_rounding(task) == "none":
        return ", nor TF32"
    return ", nor TF32 (except in convolutions, where PyTorch uses it itself)"


def module_rules(task: Task) -> str:
    """Returns sentences on how a candidate gets the parameters, constructor arguments and training mode of
    the task's module; empty if the module has none of these."""
    rules = []
    if task.signature.parameters:
        rules.append(
            "The parameters of the module (weights, running statistics) are arguments of the function, in "
            "the layout that PyTorch gives them."
        )
    if "__init__" in task.source:
        rules.append(
            "Numbers from its constructor are constants of the code, unless they are sizes among the "
            "arguments."
        )
    if MODES.search(task.source):
        rules.append(
            "The module runs as it is constructed: in training mode unless it says otherwise (batch "
            "normalization takes its statistics from the batch), without gradients; its buffers are only "
            "read."
        )
    return " ".join(rules)


def _title(task: Task) -> str:
    return f"reference, {'PyTorch' if task.kind == 'module' else 'CUDA'}"


def _computing(source: str) -> list[ast.stmt]:
    """The top-level statements that say what is computed: classes and functions other than `get_inputs`,
    `get_init_inputs` if it returns something, and assignments of names that these use."""
    kept: list[ast.stmt] = []
    used: set[str] = set()
    for node in reversed(ast.parse(source).body):
        if isinstance(node, ast.Assign):
            keep = any(isinstance(t, ast.Name) and t.id in used for t in node.targets)
        elif isinstance(node, ast.FunctionDef) and node.name == CONSTRUCTED:
            keep = not ast.unparse(node).endswith("return []")
        else:
            keep = isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name != INPUTS
        if keep:
            kept.insert(0, node)
            used |= {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
    return kept


def _first(node: ast.stmt) -> int:
    """The first line of a statement, from 1; that of its first decorator if it has one."""
    decorators = node.decorator_list if isinstance(node, ast.ClassDef | ast.FunctionDef) else []
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])
