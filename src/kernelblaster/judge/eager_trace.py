"""Finds out which kernels a task's PyTorch module would launch in eager mode, by running it on fake tensors
(which have no values). Used by the timing model of eager PyTorch."""

import warnings
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from kernelblaster.errors import BadTask
from kernelblaster.judge.eager_launches import EagerCall, EagerLaunch, attention, launches_of, recurrent
from kernelblaster.records import Task, Workload
from kernelblaster.tasks.module_file import ModuleFile, call_module
from kernelblaster.tasks.module_state import cast, cast_of, convert
from kernelblaster.tasks.small import find_small

# Aliases that the dispatcher does not mark as views.
ALIASES = {"_unsafe_view", "_reshape_alias", "detach", "alias", "lift_fresh", "unsafe_split", "unsafe_chunk"}
RECURRENT = {"lstm", "gru", "rnn_tanh", "rnn_relu"}
FUSED = {  # with the names of their arguments
    "scaled_dot_product_attention": ("query", "key", "value", "attn_mask", "dropout_p", "is_causal"),
    "rms_norm": ("input", "normalized_shape", "weight", "eps"),
}
Step = EagerLaunch | None  # None: a view, on which only the host works


def trace(task: Task, workload: Workload) -> list[Step]:
    """Returns the kernels of one forward call of the task's module at the workload's sizes, in order. For an
    operator that only makes a view, and so launches none, the list has None. Runs on fake tensors: nothing is
    computed or allocated. Raises BadTask for a CUDA-source task, and if forward() needs the values of
    tensors."""
    if task.kind != "module":
        raise BadTask(f"{task.name}: a CUDA-source task has no PyTorch module whose time could be modelled.")
    file = ModuleFile(task.source, task.path)
    dtype = cast_of(task)
    constants = (find_small(file, dtype) or {}) if workload.module == "small" else {}
    recorder = _Recorder()
    try:
        with file.replaced(constants), FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
            module = convert(file.build(), dtype)
            inputs = _at(workload, task, [cast(value, dtype) for value in file.inputs()])
            with warnings.catch_warnings(), recorder, _WholeOperators(recorder):
                warnings.simplefilter("ignore")
                call_module(module, inputs)
    except BadTask:
        raise
    except Exception as error:
        text = " ".join(str(error).split())[:300]
        raise BadTask(f"{task.path}: forward() cannot be followed without its values: {text}") from error
    return recorder.steps


def _at(workload: Workload, task: Task, inputs: list[Any]) -> list[Any]:
    """The module's inputs at other sizes: for each tensor among `inputs` an empty one of the workload's shape
    and the same type; other values as they are."""
    shapes = iter(workload.shape(tensor) for tensor in task.signature.input_tensors)
    return [torch.empty(next(shapes), dtype=v.dtype) if isinstance(v, torch.Tensor) else v for v in inputs]


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A PyTorch dispatch mode: while it is active, every operator that runs adds the GPU kernels that eager
    PyTorch would launch for it to `steps`. Nothing is added while `paused`."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.steps: list[Step] = []
        self.paused = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if self.paused or func.namespace == "prim":
            return result
        if func.is_view or name in ALIASES:
            self.steps.append(None)
            return result
        call = EagerCall(
            name=name,
            pointwise=torch.Tag.pointwise in func.tags,
            args=args,
            inputs=_tensors((args, kwargs)),
            outputs=_tensors(result),
        )
        self.steps += launches_of(call)
        return result


def _tensors(tree: Any) -> list[torch.Tensor]:
    """All tensors in a nested structure (lists, tuples, dicts) of arguments or results, in order."""
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


class _WholeOperators(TorchFunctionMode):
    """A context (a torch function mode) for operators that are one kernel (or one cuDNN call) on a GPU but
    are decomposed into many on fake tensors: adds each of them to the recorder's steps as one launch."""

    def __init__(self, recorder: _Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name = getattr(func, "__name__", "")
        if name in RECURRENT:
            return self._recurrent(name, args)
        if name not in FUSED:
            return func(*args, **(kwargs or {}))
        given = dict(zip(FUSED[name], args, strict=False)) | (kwargs or {})
        self._recorder.paused = True
        try:
            result = func(*args, **(kwargs or {}))
        finally:
            self._recorder.paused = False
        if name == "rms_norm":
            self._recorder.steps.append(EagerLaunch("layer_norm", given["input"].nbytes + result.nbytes))
        else:
            causal = bool(given.get("is_causal", False))
            self._recorder.steps.append(attention(given["query"], given["key"], given["value"], causal))
        return result

    def _recurrent(self, name: str, args: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
        """Adds a call of an RNN operator (its `name`, like lstm, and its arguments) to the recording as one
        launch and returns empty results of the right shapes: tracing the loop over time would take long.
        Packed sequences do not get here, since packing needs values."""
        data, state, weights, _, layers, _, _, bidirectional, batch_first = args
        length = data.shape[1 if batch_first and data.dim() == 3 else 0]
        directions = 2 if bidirectional else 1
        self._recorder.steps.append(recurrent(data, weights, length * layers * directions))
        states = list(state) if name == "lstm" else [state]
        output = data.new_empty(*data.shape[:-1], states[0].shape[-1] * directions)
        return (output, *(torch.empty_like(s) for s in states))
