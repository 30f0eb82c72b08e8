"""Decides in which types a task is computed: those of its file, or one type that all floating tensors are
cast to."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from kernelblaster.errors import BadTask
from kernelblaster.records.signature import Dtype
from kernelblaster.tasks.facts import Facts, learn
from kernelblaster.tasks.failures import floating_types
from kernelblaster.tasks.module_file import ModuleFile
from kernelblaster.tasks.module_state import dtype_name
from kernelblaster.tasks.small import learn_small


def learn_types(file: ModuleFile, dtype: Dtype | None) -> tuple[Dtype | None, Facts, tuple[str, ...]]:
    """Decides in which floating-point type a task is computed. `dtype` is the type that the user asked for;
    None: the file's own. If it is None and the module refuses its inputs because its parameters have another
    type, the module is cast to the inputs' type. Returns three things: the type that all floating tensors are
    cast to (None: they keep the file's types); the facts of the module in these types (shapes and types); and
    notes for the user."""
    if dtype is not None:
        return dtype, learn(file, getattr(torch, dtype)), ()
    inputs = _type_of_inputs(file)
    if inputs is None:
        return None, learn(file, None), ()
    try:
        own = learn(file, None)
        if _runs(file, None, own):  # tensors without values let types pass that do not go together
            return None, own, ()
    except BadTask:
        if not _runs(file, inputs, learn(file, inputs)):
            raise
    facts = learn(file, inputs)
    name = dtype_name(inputs)
    return name, facts, (f"the parameters are cast to {name}, the type of the inputs",)


def _runs(file: ModuleFile, dtype: torch.dtype | None, facts: Facts) -> bool:
    """Whether the module can be built with smaller constants and then really runs on the CPU, its floating
    tensors cast to `dtype` (None: as they are). `facts` are those of the module as the file builds it, in the
    same types."""
    try:
        return learn_small(file, dtype, facts) is not None
    except BadTask:
        return False


def _type_of_inputs(file: ModuleFile) -> torch.dtype | None:
    """The floating-point type to cast the module to because its inputs have it and its parameters have
    another; None if they agree, or the inputs have several."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        given, held = floating_types(file.build(), file.inputs())
    return next(iter(given)) if len(given) == 1 and held and given != held else None
