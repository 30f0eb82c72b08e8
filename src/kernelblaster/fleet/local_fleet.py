"""The fleet of one machine: an owner process for each of its GPUs, or PTX machines (emulators); no Ray is
needed."""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from kernelblaster.fleet.owner import Owner
from kernelblaster.fleet.owner_process import ProcessOwner
from kernelblaster.judge.compile import compile_candidate, compiler_threads, compilers
from kernelblaster.processes.cores import usable_cores
from kernelblaster.records import Candidate, Task
from kernelblaster.settings import visible_gpus

RESTARTS = 3  # of an owner that was lost again and again without having answered anything


def gpus_here() -> tuple[str, ...]:
    """Returns the GPUs that this process may use. Each is a value for CUDA_VISIBLE_DEVICES: a process that is
    started with it sees that GPU alone."""
    import torch

    count = torch.cuda.device_count()
    named = visible_gpus()
    return tuple(map(str, range(count))) if named is None else named[:count]


def machines_here() -> int:
    """How many PTX machines (emulators on the CPU) this machine offers: one for every two cores, since
    candidates are compiled beside them."""
    return max(1, usable_cores() // 2)


class ThreadCompilers:
    """`Compilers` in threads of this process, which run nvcc. Compiled candidates are in this machine's
    cache."""

    def __init__(self) -> None:
        self.slots = compiler_threads()
        self._pool = compilers()

    def compile(self, task: Task, candidate: Candidate, architecture: str) -> "Future[Any]":
        return self._pool.submit(compile_candidate, task, candidate, architecture)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class LocalFleet:
    """A `Fleet` on this machine: one process for each GPU in `gpus`, and one for each of `machines` PTX
    machines (emulators). `gpus` are values for CUDA_VISIBLE_DEVICES; None stands for the first GPU that this
    process sees. With `demands_health`, a GPU that is not fit to time on (hot, slowed down, used by others)
    is refused."""

    def __init__(
        self, gpus: Sequence[str | None] = (), machines: int = 0, *, demands_health: bool = False
    ) -> None:
        self.demands_health = demands_health
        self._gpus = tuple(gpus)
        self._machines = machines
        self._owners: dict[str, ProcessOwner] = {}
        self._restarts: Counter[str] = Counter()
        self._why = "it has no device"
        self._join: Callable[[Owner], None] = lambda owner: None
        self.compilers = ThreadCompilers()

    def start(self, join: Callable[[Owner], None]) -> None:
        self._join = join
        for gpu in self._gpus:
            self._add(ProcessOwner("cuda", f"GPU {gpu or '0'}", gpu))
        for number in range(self._machines):
            self._add(ProcessOwner("emulated", f"PTX machine {number}", ""))

    def replace(self, lost: Owner, why: str, *, fruitful: bool) -> None:
        old = self._owners.pop(lost.name)
        old.end()
        self._restarts[lost.name] = 0 if fruitful else self._restarts[lost.name] + 1
        self._why = why
        if self._restarts[lost.name] <= RESTARTS:
            self._add(ProcessOwner(old.kind, old.name, old.gpus))

    def refuse(self, owner: Owner, why: str) -> None:
        self._owners.pop(owner.name).end()
        self._why = why

    def note(self, owner: Owner, about: str) -> None:
        pass

    def hopeless(self) -> str | None:
        return None if self._owners else self._why

    def close(self) -> None:
        self.compilers.close()
        for owner in self._owners.values():
            owner.end()
        self._owners.clear()

    def _add(self, owner: ProcessOwner) -> None:
        self._owners[owner.name] = owner
        self._join(owner)
