"""The least bytes and operations that any implementation of a task needs."""

from math import prod

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from kernelblaster.records import Fitness, Floor, Task
from kernelblaster.tasks.cuda_file import CudaFile
from kernelblaster.tasks.derive import cast, convert
from kernelblaster.tasks.module_file import ModuleFile, call_module

# Operators that may read only part of what they are given.
PARTIAL = {"embedding", "gather", "index", "index_select", "slice", "select", "narrow", "take"}
PARTIAL |= {"max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices", "convolution"}
PARTIAL |= {"avg_pool2d", "avg_pool3d", "masked_fill", "where", "triu", "tril", "masked_select"}
PARTIAL |= {"nll_loss_forward", "topk", "unfold", "as_strided", "split", "unbind", "chunk"}


def _attention_operations(  # type: ignore[no-untyped-def]
    query, key, value, dropout_p=0.0, is_causal=False, *_, **__
) -> int:
    """Of the shapes; a causal query sees no more keys than came before it."""
    *batch, queries, width = query
    keys = key[-2]
    pairs = sum(min(at + 1, keys) for at in range(queries)) if is_causal else queries * keys
    return int(2 * prod(batch) * pairs * (width + value[-1]))


# What PyTorch's own counter leaves out: attention as it is run on the host, where this is counted.
COUNTED = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention_operations}


class _Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.names.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def floor_of(task: Task, fitness: Fitness | None = None) -> Floor:
    """Counted on fake tensors at the primary workload; nothing is computed."""
    workload = task.primary
    signature = task.signature
    total = workload.total_bytes(signature)
    outputs = sum(workload.bytes(tensor) for tensor in signature.outputs)
    if task.kind == "cuda":
        return Floor(bytes=total - _looked_up(task, outputs), certain_bytes=outputs, operations=0)
    names, operations = _count(task)
    certain = outputs
    if not names & PARTIAL:
        insensitive = set(fitness.insensitive) if fitness else set()
        certain += sum(
            workload.bytes(tensor) for tensor in signature.read_tensors if tensor.name not in insensitive
        )
    return Floor(bytes=total, certain_bytes=certain, operations=operations)


def _looked_up(task: Task, outputs: int) -> int:
    """Bytes of a CUDA source's tables that need not be read: of what another input indexes into, no more
    than the outputs' bytes count."""
    drawn = CudaFile(task.source, task.path).distributions.values()
    indexed = {values.removeprefix("below ") for values in drawn if values.startswith("below ")}
    tables = [t for t in task.signature.read_tensors if t.floating and t.dims and t.dims[0] in indexed]
    return sum(max(0, task.primary.bytes(table) - outputs) for table in tables)


def _count(task: Task) -> tuple[set[str], int]:
    dtype = getattr(torch, task.dtype)
    file = ModuleFile(task.source, task.path)
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        module = convert(file.build(), dtype)
        inputs = [cast(value, dtype) for value in file.inputs()]
        operators = _Operators()
        with FlopCounterMode(display=False, custom_mapping=COUNTED) as counter, operators:
            call_module(module, inputs)
    return operators.names, int(counter.get_total_flops())
