"""A task's PyTorch module, ready to run on tensors that the caller provides, on any device and in any
precision: what candidates are compared with."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from kernelblaster.errors import BadTask
from kernelblaster.records import Task, Workload
from kernelblaster.tasks.foreign import Hangs
from kernelblaster.tasks.module_file import ModuleFile, call_module
from kernelblaster.tasks.module_state import cast, cast_of, convert, parameter_names, state_of
from kernelblaster.tasks.small import find_small
from kernelblaster.tasks.values import ValuePool, pool_of


class ModuleReference:
    """A task's module, ready to run. `construction` is "primary" for the module as its file builds it, or
    "small" for the smaller one that the emulator runs. `pools` has, for each input tensor, the values it is
    filled from; `parameters` are the module's own values. All of these lie on `device`. `donor` is a
    reference whose pools and scalar inputs are used again; None: new ones are made from the task's file.

    `run` uses the tensors that the caller passes, so the caller decides in which memory and precision it
    runs.
    """

    def __init__(
        self, task: Task, construction: str, device: torch.device, donor: "ModuleReference | None" = None
    ) -> None:
        """`construction` says how the module is built: "primary" with the file's own constants, "small" with
        its small ones. `donor` is the same reference on another device, whose pools (example values that
        inputs are drawn from) and scalar inputs are taken over instead of made anew."""
        self.task = task
        self.device = device
        self._construction = construction
        file = ModuleFile(task.source, task.path)
        # While being verified, an RNN's weights lie apart in the arena: slower, and no matter there.
        warnings.filterwarnings("ignore", message="RNN module weights")
        dtype = cast_of(task)
        constants = (find_small(file, dtype) or {}) if construction == "small" else {}
        file.replace(constants)
        torch.manual_seed(0)
        self._module = convert(self._built(file), dtype)
        inputs = [] if donor else self._inputs(file)
        self._module = self._module.to(device)
        self.parameters = [tensor.detach().clone() for tensor in state_of(self._module).values()]
        self._slots = self._find_slots()
        self._own_memory = False
        self._scalars: list[Any]
        self.pools: list[ValuePool]
        if donor is not None:
            self._scalars = list(donor._scalars)
            self.pools = [replace(pool, values=pool.values.to(device)) for pool in donor.pools]
            return
        self._scalars = [None if isinstance(v, torch.Tensor) else v for v in inputs]
        workload = task.workload("small" if construction == "small" else "primary")
        tensors = [v for v in inputs if isinstance(v, torch.Tensor)]
        pairs = zip(tensors, task.signature.input_tensors, strict=True)
        self.pools = [pool_of(value, tensor, workload) for value, tensor in pairs]

    def on_host(self) -> "ModuleReference":
        """Returns a new reference with the same module, pools and scalars in host memory. There a failed
        assertion raises an exception; on a GPU it would make the device unusable."""
        return ModuleReference(self.task, self._construction, torch.device("cpu"), donor=self)

    def at_primary(self, scalars: Sequence[Any]) -> "ModuleReference":
        """Returns a new reference whose module is built as its file says, even if this one is the smaller one
        for the emulator. It has the value pools of this reference, and `scalars` as its scalar inputs, in
        order."""
        made = ModuleReference(self.task, "primary", self.device, donor=self)
        given = iter(scalars)
        made._scalars = [None if value is None else next(given) for value in self._scalars]
        return made

    @property
    def scalars(self) -> list[Any]:
        """The scalar inputs, which are the numbers among the inputs that are not tensors: their present
        values, in order."""
        return [value for value in self._scalars if value is not None]

    @contextmanager
    def with_scalars(self, scalars: Sequence[Any] | None) -> Iterator[None]:
        """A context in which `run` passes these scalar inputs instead of those of the task's file; None
        changes nothing."""
        before = self._scalars
        if scalars is not None:
            moved = iter(scalars)
            self._scalars = [None if value is None else next(moved) for value in before]
        try:
            yield
        finally:
            self._scalars = before

    def bind(self, parameters: list[torch.Tensor]) -> None:
        """Makes the module use these tensors as its parameters, without a copy. They are given in the order
        in which a candidate receives them (that of `state_of`). Buffers are copied, since a module in
        training mode writes into them."""
        self._own_memory = False
        for (owner, name), value in zip(self._slots, parameters, strict=True):
            if name in owner._parameters:
                parameter = owner._parameters[name]
                assert parameter is not None
                parameter.data = value
            else:
                owner._buffers[name] = value.clone()

    def copy_in(self, parameters: list[torch.Tensor]) -> None:
        """Copies values of parameters and buffers, given in the order in which a candidate receives them,
        into memory that belongs to the module. This memory is allocated by the first call after `bind`; later
        calls write to the same addresses."""
        if not self._own_memory:
            self.bind([value.clone() for value in parameters])
            for module in self._module.modules():
                if isinstance(module, torch.nn.RNNBase):
                    module.flatten_parameters()
            self._own_memory = True
            return
        with torch.no_grad():
            for (owner, name), value in zip(self._slots, parameters, strict=True):
                own = owner._parameters[name] if name in owner._parameters else owner._buffers[name]
                assert own is not None
                own.copy_(value)

    def run(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """Runs the module on the tensors `inputs`, with the scalars of the file (or of `with_scalars`) and
        the parameters that were bound last. Returns its outputs, a flat list of contiguous tensors in the
        order of the signature."""
        given = iter(inputs)
        arguments = [next(given) if value is None else value for value in self._scalars]
        return call_module(self._module, arguments)

    @contextmanager
    def in_float64(self):  # type: ignore[no-untyped-def]
        """A context in which torch's default type is float64, so that tensors which the module creates itself
        have it."""
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            yield
        finally:
            torch.set_default_dtype(before)

    def compiled(self, mode: str) -> Callable[[list[torch.Tensor]], list[torch.Tensor]]:
        """Returns a function like `run` that calls the module through torch.compile, to be timed as a
        baseline. `mode` is that of torch.compile: "default", "max-autotune" and so on. The module is compiled
        when the function is first called."""
        module = torch.compile(self._module, mode=None if mode == "default" else mode)

        def run(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
            given = iter(inputs)
            arguments = [next(given) if value is None else value for value in self._scalars]
            return call_module(module, arguments)  # type: ignore[arg-type]

        return run

    @property
    def state(self) -> list[torch.Tensor]:
        """The module's present parameters and buffers, in the order in which a candidate receives them (that
        of `state_of`)."""
        return [tensor.detach() for tensor in state_of(self._module).values()]

    def functional(self) -> torch.nn.Module:
        """Returns a module for tracing that computes the same but has no parameters of its own. It takes the
        tensors of `state` and then the input tensors as arguments, and returns what forward() returns. The
        scalar inputs are fixed at their present values."""
        return _Functional(self._module, list(state_of(self._module)), list(self._scalars))

    def _built(self, file: ModuleFile) -> torch.nn.Module:
        """The file's module, made on this reference's device; on the host if its constructor does not work
        there."""
        if self.device.type == "cuda":
            try:
                with torch.device(self.device):
                    return file.build()
            except Hangs:
                raise
            except BadTask:
                torch.manual_seed(0)
        return file.build()

    def _inputs(self, file: ModuleFile) -> list[Any]:
        """The file's inputs, made on this reference's device and cast to the task's type."""
        with torch.device(self.device):
            return [cast(value, cast_of(self.task)) for value in file.inputs()]

    def _find_slots(self) -> list[tuple[torch.nn.Module, str]]:
        """(owner, attribute) of each parameter and buffer, in the order of `state_of`."""
        slots = []
        for full_name in parameter_names(self._module):
            path, _, name = full_name.rpartition(".")
            slots.append((self._module.get_submodule(path), name))
        return slots


class _Functional(torch.nn.Module):
    """The module that `ModuleReference.functional` returns: calls `module` with parameters and buffers given
    as arguments. `names` are those of the parameters and buffers, `scalars` the scalar inputs with None where
    a tensor goes."""

    def __init__(self, module: torch.nn.Module, names: list[str], scalars: list[Any]) -> None:
        super().__init__()
        self._called = (module,)  # in a tuple: its parameters are not this module's
        self._names = names
        self._scalars = scalars

    def forward(self, *tensors: torch.Tensor) -> Any:
        state = dict(zip(self._names, tensors, strict=False))
        inputs = iter(tensors[len(self._names) :])
        arguments = tuple(next(inputs) if value is None else value for value in self._scalars)
        return torch.func.functional_call(self._called[0], state, arguments)


def open_reference(task: Task, workload: Workload, device: torch.device) -> ModuleReference:
    """Returns the task's module on `device`, built so that it runs at `workload`: as its file builds it, or
    for some small workloads with the smaller constants for the emulator. Raises BadTask for CUDA-source
    tasks, which have no module."""
    if task.kind != "module":
        raise BadTask(f"{task.name}: a CUDA-source task has no PyTorch module.")
    return ModuleReference(task, workload.module, device)
