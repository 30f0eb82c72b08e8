"""What a candidate is compared with: the PyTorch module, or a CUDA task's own kernel."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from random import Random
from typing import Any, Literal, Protocol

import torch

from kernelblaster.devices.device import Device, Runner
from kernelblaster.errors import KernelBlasterError
from kernelblaster.judge.layout import Layout
from kernelblaster.records import Task, Workload
from kernelblaster.records.evaluation import ORIGINAL_KERNEL
from kernelblaster.tasks.cuda_file import CudaFile
from kernelblaster.tasks.domain import Domain, declared_domain, domain_of
from kernelblaster.tasks.reference import open_reference
from kernelblaster.tasks.values import ValuePool, pool_from_distribution

BaselineName = Literal["eager", "compile", "max-autotune"]


class Baseline(Protocol):
    """Runs on tensors that lie in the arena. `wide` is the float64 reference, where there is one.
    `at` is the baseline in the construction that a workload belongs to."""

    title: str
    pools: list[ValuePool]
    parameters: list[torch.Tensor]

    @property
    def scalars(self) -> list[Any]: ...

    def with_scalars(self, scalars: Sequence[Any] | None) -> AbstractContextManager[None]:
        """Inside, these numbers take the place of the file's own (None: its own)."""
        ...

    def domain(self, workload: Workload, rng: Random) -> Domain:
        """What values the inputs take, tried at a workload of this construction."""
        ...

    def at(self, workload: Workload) -> "Baseline": ...

    def outputs(self, layout: Layout) -> list[torch.Tensor]: ...

    def adopt(self, layout: Layout) -> None:
        """Take over the parameters that lie in the arena, before `timed`."""
        ...

    def timed(self, layout: Layout) -> tuple[float, list[torch.Tensor]]: ...

    def wide(
        self, inputs: list[torch.Tensor], parameters: list[torch.Tensor]
    ) -> list[torch.Tensor] | None: ...

    def close(self) -> None: ...


class ModuleBaseline:
    """The task's module, eager or compiled, in the judge's own process."""

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
        if name != "eager":
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

    def outputs(self, layout: Layout) -> list[torch.Tensor]:
        signature = self._task.signature
        self._reference.bind([layout.view(t) for t in signature.parameters])
        return self._reference.run([layout.view(t) for t in signature.input_tensors])

    def adopt(self, layout: Layout) -> None:
        """Into the module's own memory, laid out as PyTorch likes it."""
        self._reference.copy_in([layout.view(t) for t in self._task.signature.parameters])

    def timed(self, layout: Layout) -> tuple[float, list[torch.Tensor]]:
        inputs = [layout.view(t) for t in self._task.signature.input_tensors]
        results: list[torch.Tensor] = []
        duration_us = self._device.time_reference(lambda: results.extend(self._fast(inputs)))
        return duration_us, results

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
    """A CUDA-source task's own kernel, in a worker like any candidate."""

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
        self._drawn: dict[tuple[int, ...], list[torch.Tensor]] = {}
        self._device = device
        self._runner: Runner | None = None

    def at(self, workload: Workload) -> "KernelBaseline":
        """The same kernel; its parameters take the shapes of the workload, drawn once for each."""
        sizes = tuple(workload.sizes.values())
        if sizes not in self._drawn:
            tensors = zip(self._task.signature.parameters, self._parameter_pools, strict=True)
            self._drawn[sizes] = [
                p.values[torch.randint(len(p.values), workload.shape(t), device=p.values.device)]
                for t, p in tensors
            ]
        self.parameters = self._drawn[sizes]
        return self

    def with_scalars(self, scalars: Sequence[Any] | None) -> AbstractContextManager[None]:
        return nullcontext()

    def domain(self, workload: Workload, rng: Random) -> Domain:
        return declared_domain(self._task.source, self._task.path, self._task.signature.input_tensors)

    def start(self) -> None:
        """Load the kernel into a worker that shares the current arena."""
        self.close()
        self._runner = self._device.start(self.binary)

    def outputs(self, layout: Layout) -> list[torch.Tensor]:
        assert self._runner is not None
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
        report = self._runner.time(layout.arguments(self._task.signature, []))
        return report.event_us, self._copies(layout)

    def wide(self, inputs: list[torch.Tensor], parameters: list[torch.Tensor]) -> list[torch.Tensor] | None:
        return None

    def close(self) -> None:
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    def _copies(self, layout: Layout) -> list[torch.Tensor]:
        return [layout.view(t).clone() for t in self._task.signature.outputs]
