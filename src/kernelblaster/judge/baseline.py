"""Baselines: a baseline is what a candidate is compared with and timed against: the task's PyTorch module
(eager, or by torch.compile or IREE), or a CUDA task's own kernel."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from pathlib import Path
from random import Random
from typing import Any, Protocol

import torch

from kernelblaster.devices.device import Device, Runner, synchronize
from kernelblaster.errors import BadTask, KernelBlasterError
from kernelblaster.judge.iree_baseline import iree_run
from kernelblaster.judge.layout import Layout
from kernelblaster.records import Task, Workload
from kernelblaster.records.evaluation import ORIGINAL_KERNEL, BaselineName
from kernelblaster.tasks.cuda_file import CudaFile
from kernelblaster.tasks.domain import Domain, declared_domain, domain_of
from kernelblaster.tasks.reference import open_reference
from kernelblaster.tasks.values import ValuePool, pool_from_distribution

COMPILED: tuple[BaselineName, ...] = ("compile", "max-autotune")


class Baseline(Protocol):
    """What candidates are compared with and timed against: the task's PyTorch module, or the user's own
    kernel. It works on tensors in the arena, the memory that candidates work on too. `title` names it in
    reports ("eager"). `pools` has one entry for each input tensor: the sample of values that the tensor is
    filled from. `parameters` are the values of the weights and buffers. The property `scalars` has the
    numbers among the inputs, in the order of the signature: those of the task's file or, inside
    `with_scalars`, those given there."""

    title: str
    pools: list[ValuePool]
    parameters: list[torch.Tensor]

    @property
    def scalars(self) -> list[Any]: ...

    def with_scalars(self, scalars: Sequence[Any] | None) -> AbstractContextManager[None]:
        """A context in which the baseline is called with the scalar arguments `scalars`, one for each scalar
        of the signature, in order; if it is None, with those in the task's file."""
        ...

    def domain(self, workload: Workload, rng: Random) -> Domain:
        """Returns which kinds of values (negative, huge, NaN, ...) each input tensor accepts, and sets of
        values that the scalar inputs may have instead of the task file's own. A PyTorch module is run at
        `workload` to find out, with scalars that `rng` draws; a CUDA source declares it, so nothing is
        run."""
        ...

    def at(self, workload: Workload) -> "Baseline":
        """Returns the baseline to use at `workload` (a choice of all sizes); all other methods are to be
        called on the result. Usually it is this object. It is a different one if the module must be built
        with smaller constructor arguments to run at `workload`, as at the small workload of some tasks. That
        one is made at the first such call, and returned again by later calls."""
        ...

    def outputs(self, layout: Layout) -> list[torch.Tensor]:
        """Runs the baseline on the values that the tensors of `layout` hold, and returns its outputs as new
        tensors, in the task's own precision. (A layout says where in memory the tensors of one call lie.)"""
        ...

    def adopt(self, layout: Layout) -> None:
        """Copies the parameter values that lie in the memory of `layout` into the baseline's own tensors.
        Call it before `timed`, whose time does not include this copying."""
        ...

    def timed(self, layout: Layout) -> tuple[float, list[torch.Tensor]]:
        """Runs the baseline once, beginning with a cold L2 cache, on the values that the tensors of `layout`
        hold. Returns (its time in us, its outputs). Call `adopt` first."""
        ...

    def wide(self, inputs: list[torch.Tensor], parameters: list[torch.Tensor]) -> list[torch.Tensor] | None:
        """Returns the baseline's outputs, computed in float64 from these float64 inputs and parameters; None
        where that is not possible (a user's kernel, a module that insists on another precision) or does not
        fit in memory."""
        ...

    def close(self) -> None:
        """Ends the process that runs the baseline, if it has one (a user's kernel does, a PyTorch module does
        not)."""
        ...


class ModuleBaseline:
    """The task's PyTorch module, run in the judge's own process on `device`: eager, or compiled by
    torch.compile or IREE, as `name` says. With `small`, the module is built with the constructor arguments of
    the small workload, otherwise with those of the primary one (the timed sizes)."""

    def __init__(
        self, task: Task, device: Device, name: BaselineName = "eager", *, small: bool = False
    ) -> None:
        self.title: str = name
        self._task = task
        self._device = device
        workload = task.workload("small") if small else task.primary
        self._reference = open_reference(task, workload, device.torch_device)
        self._construction = workload.module
        self._other: ModuleBaseline | None = None
        self.pools = self._reference.pools
        self.parameters = self._reference.parameters
        self._fast: Callable[[list[torch.Tensor]], list[torch.Tensor]] = self._reference.run
        if name == "iree":
            self._fast = iree_run(self._reference, device.spec.architecture)
        elif name != "eager":
            mode = "max-autotune-no-cudagraphs" if name == "max-autotune" else "default"
            self._fast = self._reference.compiled(mode)

    @property
    def scalars(self) -> list[Any]:
        return self._reference.scalars

    def with_scalars(self, scalars: Sequence[Any] | None) -> AbstractContextManager[None]:
        return self._reference.with_scalars(scalars)

    def domain(self, workload: Workload, rng: Random) -> Domain:
        return domain_of(self._reference, workload, rng)

    def at(self, workload: Workload) -> "ModuleBaseline":
        if workload.module == self._construction:
            return self
        if self._other is None:
            self._other = ModuleBaseline(self._task, self._device, small=True)
        return self._other

    def large(self, scalars: Sequence[Any]) -> "ModuleBaseline":
        """Returns a new baseline whose module is built for the primary workload (the timed sizes) and called
        with the scalar arguments `scalars`. It is used where this baseline was built for the small workload.
        It draws inputs and parameters from the same pools of values as this one, so the task's file need not
        make tensors of that size."""
        made = copy(self)
        made._reference = self._reference.at_primary(scalars)
        made._construction, made._other = "primary", None
        made.pools, made.parameters = made._reference.pools, made._reference.parameters
        made._fast = made._reference.run
        return made

    def outputs(self, layout: Layout) -> list[torch.Tensor]:
        signature = self._task.signature
        inputs = [layout.view(t) for t in signature.input_tensors]
        return self.computed(inputs, [layout.view(t) for t in signature.parameters])

    def computed(self, inputs: list[torch.Tensor], parameters: list[torch.Tensor]) -> list[torch.Tensor]:
        """Runs the module on `inputs`, after its parameters were set to `parameters`. Returns its outputs, in
        the task's own precision. Raises BadTask if the module refuses these inputs."""
        self._reference.bind(parameters)
        try:
            return self._reference.run(inputs)
        except (IndexError, ValueError, AssertionError) as error:
            shapes = ", ".join(str(tuple(value.shape)) for value in inputs)
            raise BadTask(
                f"{self._task.name}: the module accepts inputs of the shapes {shapes}, but not these values: "
                f"{type(error).__name__}: {str(error).strip() or 'without a message'}"
            ) from error

    def adopt(self, layout: Layout) -> None:
        """Copies the parameter values that lie in the memory of `layout` into tensors that the module owns.
        These are allocated at the first call and reused, at the same addresses, by later ones."""
        self._reference.copy_in([layout.view(t) for t in self._task.signature.parameters])

    def timed(self, layout: Layout) -> tuple[float, list[torch.Tensor]]:
        inputs = [layout.view(t) for t in self._task.signature.input_tensors]
        results: list[torch.Tensor] = []

        def run() -> None:
            results.clear()  # of an earlier time: their memory is needed
            results.extend(self._fast(inputs))

        return self._device.time_reference(run), results

    def wide(self, inputs: list[torch.Tensor], parameters: list[torch.Tensor]) -> list[torch.Tensor] | None:
        self._reference.bind(parameters)
        try:
            with self._reference.in_float64():
                return self._reference.run(inputs)
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            return None
        except RuntimeError:
            return None  # the module insists on another precision somewhere

    def close(self) -> None:
        pass


class KernelBaseline:
    """The user's kernel of a CUDA-source task, compiled at `binary` and run on `device` in a separate
    process, as candidates are. It has no float64 version, so `wide` returns None."""

    def __init__(self, task: Task, device: Device, binary: Path) -> None:
        self.title = ORIGINAL_KERNEL
        self.binary = binary
        self._task = task
        parsed = CudaFile(task.source, task.path)
        tensors = task.signature.read_tensors
        pools = [
            pool_from_distribution(parsed.distributions[t.name], getattr(torch, t.dtype), device.torch_device)
            for t in tensors
        ]
        count = len(task.signature.input_tensors)
        self.pools = pools[:count]
        self.scalars: list[Any] = []
        self._parameter_pools = pools[count:]
        self.parameters: list[torch.Tensor] = []
        self._drawn: dict[tuple[tuple[int, ...], ...], list[torch.Tensor]] = {}
        self._device = device
        self._runner: Runner | None = None

    def at(self, workload: Workload) -> "KernelBaseline":
        """Returns this same object, whatever the workload, after setting its attribute `parameters` for
        `workload`. The task's file has no values for parameters: they are drawn at random from the
        distributions that it declares, in the shapes that parameters have at `workload`. For the same shapes,
        a later call sets the same values again. A call with other shapes replaces `parameters`."""
        shapes = tuple(workload.shape(tensor) for tensor in self._task.signature.parameters)
        if shapes not in self._drawn:
            self._drawn[shapes] = [
                p.values[torch.randint(len(p.values), shape, device=p.values.device)]
                for shape, p in zip(shapes, self._parameter_pools, strict=True)
            ]
        self.parameters = self._drawn[shapes]
        return self

    def with_scalars(self, scalars: Sequence[Any] | None) -> AbstractContextManager[None]:
        """A context that does nothing, whatever `scalars` are: CUDA-source tasks have no scalar arguments."""
        return nullcontext()

    def domain(self, workload: Workload, rng: Random) -> Domain:
        return declared_domain(self._task.source, self._task.path, self._task.signature.input_tensors)

    def start(self) -> None:
        """Loads the kernel into new processes that share the device's present arena (the memory that
        candidates work on). Needed before `outputs` and `timed`, and again after the device has made another
        arena."""
        self.close()
        self._runner = self._device.start(self.binary)

    def outputs(self, layout: Layout) -> list[torch.Tensor]:
        """The outputs of the user's kernel on the values that the layout's tensors hold, as new tensors.
        Raises KernelBlasterError if the kernel fails."""
        assert self._runner is not None
        synchronize(self._device.torch_device)  # values are written before its process reads them
        report = self._runner.call(
            layout.arguments(self._task.signature, []), scratch_poison=-1, accounting=False
        )
        wrong = report.error or "\n".join(report.findings)
        if wrong:
            raise KernelBlasterError(f"{self._task.name}: the original kernel fails: {wrong}")
        return self._copies(layout)

    def adopt(self, layout: Layout) -> None:
        pass

    def timed(self, layout: Layout) -> tuple[float, list[torch.Tensor]]:
        assert self._runner is not None
        synchronize(self._device.torch_device)
        report = self._runner.time(layout.arguments(self._task.signature, []))
        return report.event_us, self._copies(layout)

    def wide(self, inputs: list[torch.Tensor], parameters: list[torch.Tensor]) -> list[torch.Tensor] | None:
        return None

    def close(self) -> None:
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    def _copies(self, layout: Layout) -> list[torch.Tensor]:
        """The results of the call that just ended: a copy of each output tensor in the layout's memory, in
        the signature's order."""
        return [layout.view(t).clone() for t in self._task.signature.outputs]


def forget_compiled() -> None:
    """Drops everything that torch.compile has compiled in this process. Otherwise later tasks might reach its
    limit on recompilations."""
    torch._dynamo.reset()
