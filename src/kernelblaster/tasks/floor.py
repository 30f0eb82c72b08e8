"""Counts a task's floor: the least bytes of memory traffic and floating-point operations that any
implementation of it needs. The judge turns them into the least time that a GPU's bandwidth and peak rates
allow."""

from math import expm1, prod
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from kernelblaster.records import Fitness, Floor, Task
from kernelblaster.tasks.cuda_file import CudaFile
from kernelblaster.tasks.module_file import ModuleFile, call_module
from kernelblaster.tasks.module_state import cast, cast_of, convert, state_of

# Operators that may read only part of what they are given.
PARTIAL = {"embedding", "gather", "index", "index_select", "slice", "select", "narrow", "take"}
PARTIAL |= {"max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices", "convolution"}
PARTIAL |= {"avg_pool2d", "avg_pool3d", "masked_fill", "where", "triu", "tril", "masked_select"}
PARTIAL |= {"nll_loss_forward", "topk", "unfold", "as_strided", "split", "unbind", "chunk"}
# Operators that take as many elements or rows from their first tensor as they return.
GATHERING = {"embedding", "gather", "index", "index_select", "take", "_unsafe_index"}
ALIASES = {"_unsafe_view", "_reshape_alias", "detach", "alias", "lift_fresh"}


def _attention_operations(  # type: ignore[no-untyped-def]
    query, key, value, dropout_p=0.0, is_causal=False, *_, **__
) -> int:
    """Floating-point operations of attention; `query`, `key` and `value` are shapes (..., length, width).
    A causal query sees keys up to its own position only."""
    *batch, queries, width = query
    keys = key[-2]
    pairs = sum(min(at + 1, keys) for at in range(queries)) if is_causal else queries * keys
    return int(2 * prod(batch) * pairs * (width + value[-1]))


# What PyTorch's own counter leaves out: attention as it is run on the host, where this is counted.
COUNTED = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention_operations}


class _Reads(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A context that records the names of the ATen operators run inside (`names`), and how many elements of
    each of `tensors` they read, directly or through views. Elements that are read twice through one view
    count once."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()
        self._positions = {_storage(tensor): position for position, tensor in enumerate(tensors)}
        self._sizes = [tensor.numel() for tensor in tensors]
        self._views: list[dict[Any, float]] = [{} for _ in tensors]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name = func.overloadpacket.__name__
        self.names.add(name)
        result = func(*args, **(kwargs or {}))
        if not func.is_view and name not in ALIASES:
            tensors = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
            for position, tensor in enumerate(tensors):
                gathers = name in GATHERING and position == 0
                self._read(tensor, _gathered(tensor, result) if gathers else tensor.numel())
        return result

    def elements(self, position: int) -> int:
        """How many elements are read of the tensor at this position of the list given at construction; 0 if
        it is unused, at most its size."""
        return min(self._sizes[position], round(sum(self._views[position].values())))

    def _read(self, tensor: torch.Tensor, elements: float) -> None:
        """Count a read of `elements` elements of `tensor`, if it is one of the recorded tensors or a view of
        one; other tensors (intermediate results) are not counted."""
        position = self._positions.get(_storage(tensor))
        if position is not None:
            view = (tensor.storage_offset(), tuple(tensor.shape), tensor.stride())
            views = self._views[position]
            views[view] = max(views.get(view, 0.0), elements)


def _storage(tensor: torch.Tensor) -> int:
    """A number that identifies the memory that a tensor lies in: a tensor and all views of it have the
    same."""
    return int(tensor.untyped_storage()._cdata)


def _gathered(table: torch.Tensor, result: torch.Tensor) -> float:
    """The expected number of distinct elements of `table` that a gather (embedding, index_select, ...) with
    this `result` reads, if its indices are uniformly random and may repeat."""
    size = table.numel()
    return -size * expm1(-result.numel() / size) if size else 0.0


def floor_of(task: Task, fitness: Fitness | None = None) -> Floor:
    """Returns the least bytes and floating-point operations that any implementation of `task` needs at its
    primary workload (the sizes that are timed), counted on fake tensors (which have no values).
    `certain_bytes` of the result leaves out what an implementation might not read: inputs of operators that
    may read only a part, and parameters that do not influence the outputs, according to `fitness`. For a CUDA
    source operations are not counted (0)."""
    workload = task.primary
    signature = task.signature
    outputs = sum(workload.bytes(tensor) for tensor in signature.outputs)
    if task.kind == "cuda":
        total = workload.total_bytes(signature)
        return Floor(bytes=total - _looked_up(task, outputs), certain_bytes=outputs, operations=0)
    reads, operations = _count(task)
    certain = outputs
    if not reads.names & PARTIAL:
        insensitive = set(fitness.insensitive) if fitness else set()
        certain += sum(
            workload.bytes(tensor) for tensor in signature.read_tensors if tensor.name not in insensitive
        )
    needed = sum(
        reads.elements(position) * workload.bytes(tensor) // max(1, workload.elements(tensor))
        for position, tensor in enumerate(signature.read_tensors)
    )
    return Floor(bytes=outputs + needed, certain_bytes=certain, operations=operations)


def _looked_up(task: Task, outputs: int) -> int:
    """Bytes of a CUDA source's lookup tables (such as embeddings) that need not be read. A table is a
    floating tensor into whose first dimension another tensor indexes; no more bytes of it are needed than the
    outputs have (`outputs`)."""
    drawn = CudaFile(task.source, task.path).distributions.values()
    indexed = {values.removeprefix("below ") for values in drawn if values.startswith("below ")}
    tables = [t for t in task.signature.read_tensors if t.floating and t.dims and t.dims[0] in indexed]
    return sum(max(0, task.primary.bytes(table) - outputs) for table in tables)


def _count(task: Task) -> tuple[_Reads, int]:
    """(elements that are read of each input and parameter, number of floating-point operations) of one run of
    the task's module on fake tensors."""
    dtype = cast_of(task)
    file = ModuleFile(task.source, task.path)
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        module = convert(file.build(), dtype)
        inputs = [cast(value, dtype) for value in file.inputs()]
        given = [value for value in inputs if isinstance(value, torch.Tensor)]
        reads = _Reads([*given, *state_of(module).values()])
        with FlopCounterMode(display=False, custom_mapping=COUNTED) as counter, reads:
            call_module(module, inputs)
    return reads, int(counter.get_total_flops())
