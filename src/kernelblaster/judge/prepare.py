"""Prepares tasks for the judge, once each: the reference, the least work that any kernel needs (floor), the
planner of verification cases and the memory that candidates need."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from kernelblaster.devices.device import Device
from kernelblaster.errors import BadTask
from kernelblaster.judge.baseline import Baseline, KernelBaseline, ModuleBaseline
from kernelblaster.judge.cases import CasePlanner
from kernelblaster.judge.compile import Binary
from kernelblaster.judge.emulate import small_workload
from kernelblaster.judge.layout import slot_bytes, spare_bytes
from kernelblaster.judge.needs import check_memory, out_of_memory, room_on
from kernelblaster.judge.operand_rounding import OperandRounding, expected_rounding, measured_rounding
from kernelblaster.judge.options import EvaluationOptions
from kernelblaster.records import Candidate, Fitness, Floor, Outcome, Task
from kernelblaster.tasks.fitness import fitness_of
from kernelblaster.tasks.floor import floor_of

Compile = Callable[[Task, Candidate], Binary | Outcome]


@dataclass(frozen=True)
class Prepared:
    """What is computed once for a task and a device, before its candidates are judged. `baseline` runs the
    reference (PyTorch, or the user's kernel). `fitness` says whether candidates can be verified and timed,
    `floor` the least memory traffic and arithmetic of any kernel. `planner` draws verification plans.
    `rounding` says which operands of products the baseline rounds at the timed sizes (as to TF32); candidates
    may round them too.

    Two fields are about the arena, the memory that candidates work on. `slots` are the bytes of each tensor's
    slot in it; `spare` are the bytes that the float64 reference needs beyond these.
    """

    task: Task
    baseline: Baseline
    fitness: Fitness
    floor: Floor
    planner: CasePlanner
    rounding: OperandRounding
    slots: list[int]
    spare: int


class TaskPreparer:
    """Prepares tasks for one device, each once. `options` say which baseline candidates are compared with,
    and which function is called with progress. `compile` compiles the original kernels of CUDA tasks.
    `largest_bytes` is None on a GPU. On the emulator, candidates run only at workloads whose tensors take at
    most that many bytes together."""

    def __init__(
        self, device: Device, options: EvaluationOptions, compile: Compile, largest_bytes: int | None
    ) -> None:
        self._device = device
        self._options = options
        self._compile = compile
        self._largest_bytes = largest_bytes
        self._prepared: dict[str, Prepared] = {}

    def prepare(self, task: Task) -> Prepared:
        """Returns the task with its reference, the floor (least work of any kernel), the planner of
        verification cases and the memory needed, computed at the first call and remembered after. Raises
        BadTask if the task cannot be judged."""
        if task.digest not in self._prepared:
            self._options.progress("preparing the reference")
            try:
                self._prepared[task.digest] = self._new(task)
            except torch.cuda.OutOfMemoryError as error:
                raise out_of_memory(task) from error
        return self._prepared[task.digest]

    def baseline(self, task: Task) -> Baseline:
        """A new baseline of a task, which runs what candidates are compared with: the PyTorch module, or a
        CUDA task's own kernel. Raises BadTask if that kernel does not compile."""
        if task.kind == "module":
            return ModuleBaseline(task, self._device, self._options.baseline, small=self._small)
        binary = self._compile(task, Candidate(source=task.source))
        if not isinstance(binary, Binary):
            detail = getattr(binary, "reason", "")
            raise BadTask(f"{task.name}: its own kernel was not accepted: {binary.kind}: {detail}")
        return KernelBaseline(task, self._device, binary.path)

    def close(self) -> None:
        """Forget all prepared tasks and close their baselines."""
        for prepared in self._prepared.values():
            prepared.baseline.close()
        self._prepared.clear()

    def _rounding(self, task: Task, baseline: Baseline) -> OperandRounding:
        """How the baseline rounds the operands of products (like TF32): measured on a GPU; on the emulator,
        what PyTorch is expected to do."""
        return OperandRounding(expected_rounding(task)) if self._small else measured_rounding(task, baseline)

    @property
    def _small(self) -> bool:
        """Whether candidates are run at small workloads only, as on the emulator."""
        return self._largest_bytes is not None

    def _new(self, task: Task) -> Prepared:
        """Prepare a task. Raises BadTask if it is unfit to be scored, if it does not fit into memory, or if
        candidates run on the emulator and it has no small workload."""
        check_memory(task, room_on(self._device.torch_device))
        fitness = fitness_of(task, self._device.torch_device)
        if not fitness.fit:
            raise BadTask(f"{task.name}: unfit to be scored: {'; '.join(fitness.problems)}")
        if self._small:
            small_workload(task)  # or BadTask
        baseline = self.baseline(task)
        planner = CasePlanner(task, baseline, small=self._small, most_bytes=self._largest_bytes)
        rounding = self._rounding(task, baseline)
        floor = floor_of(task, fitness)
        return Prepared(
            task=task,
            baseline=baseline,
            fitness=fitness,
            floor=floor.model_copy(update={"rounded": rounding.products}),
            planner=planner,
            rounding=rounding,
            slots=slot_bytes(task.signature, planner.workloads),
            spare=spare_bytes(task.signature, planner.workloads),
        )
