"""Explains why a module's forward() cannot be run: a sentence with the line and advice."""

import traceback
from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

from kernelblaster.plain_text import one_line
from kernelblaster.tasks.flat_inputs import ADDED, FLATTENED
from kernelblaster.tasks.literals import lines_before
from kernelblaster.tasks.module_file import ModuleFile

READS = "reads the values of a tensor to decide what to do"
SHAPES = "makes a tensor whose size depends on values"


def why_forward_failed(
    error: Exception, file: ModuleFile, module: torch.nn.Module, inputs: Sequence[Any]
) -> str:
    """Returns a sentence for the user on why forward() of `module` raised `error` for these inputs: the file
    with the line, what happened, and where possible what to do about it."""
    location = f"{file.path}{_line(error, file)}"
    kind = type(error).__name__
    unbacked = "UserError" in kind or "GuardOnDataDependent" in kind
    if isinstance(error, DynamicOutputShapeException):
        return f"{location}: forward() {SHAPES}, for which a kernel has no output to write; {_advice()}"
    if isinstance(error, DataDependentOutputException) or unbacked:
        return f"{location}: forward() {READS}, which a kernel launch cannot; {_advice()}"
    text = one_line(str(error))[:300]
    advice = _types(module, inputs) or _named(text, file)
    return f"{location}: forward() failed on its own inputs: {text}{'; ' + advice if advice else ''}"


def _advice() -> str:
    return "compute both ways and choose with torch.where, or leave that part out of the module."


def _line(error: Exception, file: ModuleFile) -> str:
    """ ":LINE" of the innermost traceback frame that is in the task's file as the user wrote it; "" if there
    is none. Lines that were added after its end, to make a task of it, are none of the file's."""
    added = [file.source.find(mark) for mark in (ADDED, FLATTENED)]
    own = file.source[: min((at for at in added if at >= 0), default=None)]
    last = own.count("\n") + 1 - lines_before(file.source)
    lines = [
        n
        for frame, n in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename == file.path and 1 <= n <= last
    ]
    return f":{lines[-1]}" if lines else ""


def floating_types(
    module: torch.nn.Module, inputs: Sequence[Any]
) -> tuple[set[torch.dtype], set[torch.dtype]]:
    """Returns (the floating-point types of the input tensors, the floating-point types of the module's
    parameters and buffers). Most modules run only if both are the same single type."""
    given = {v.dtype for v in inputs if isinstance(v, torch.Tensor) and v.is_floating_point()}
    held = {t.dtype for t in (*module.parameters(), *module.buffers()) if t.is_floating_point()}
    return given, held


def _types(module: torch.nn.Module, inputs: Sequence[Any]) -> str:
    """Advice for the user where the module failed because its inputs and its parameters have different
    floating-point types; "" if the types agree."""
    given, held = floating_types(module, inputs)
    if not given or not held or given == held:
        return ""
    return (
        f"inputs are {_words(given)} and parameters {_words(held)}: cast the module in the file, "
        "or give --dtype to cast both."
    )


def _named(text: str, file: ModuleFile) -> str:
    """Advice for the user if the error message `text` is a known one; else ""."""
    if "missing" in text and "argument" in text:
        if "def get_inputs" in file.source.partition(ADDED)[2]:
            return "--inputs must give a value for each of forward()'s arguments."
        return "get_inputs() must return a value for each of forward()'s arguments."
    return ""


def _words(dtypes: set[torch.dtype]) -> str:
    return " and ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes))
