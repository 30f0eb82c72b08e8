"""Tasks: what to compute, and what is known about it without running a candidate (least work, fitness,
workloads)."""

from typing import Literal

from kernelblaster.records.record import Record
from kernelblaster.records.signature import Dtype, Signature
from kernelblaster.records.workload import Workload

RoundedProducts = Literal["none", "convolutions", "products"]


class Floor(Record):
    """The least work that any implementation must do on the primary workload, the sizes in the task's file.

    `bytes` counts every input, parameter and output once. `operations` counts the multiplications and
    additions of matrix products, convolutions and attention as written. An algebraic rewrite may need fewer,
    so only `certain_bytes` (inputs that are read in full and that the output responds to) is used to refuse a
    measured time as impossible. `rounded` says which products PyTorch computes there on operands rounded to
    TF32: their arithmetic counts at the rate of TF32.
    """

    bytes: int
    certain_bytes: int
    operations: int
    rounded: RoundedProducts = "none"


class Fitness(Record):
    """Whether candidates can be verified and timed for a task: `problems`, in words, is empty if they can.

    `insensitive` lists parameters that the output does not depend on (a bias before a normalization):
    allowed, but their use cannot be verified.
    """

    problems: tuple[str, ...] = ()
    insensitive: tuple[str, ...] = ()

    @property
    def fit(self) -> bool:
        return not self.problems


class Task(Record):
    """What to compute: a PyTorch module ("module") or a CUDA kernel ("cuda"), with its derived signature and
    workloads. `source` is the file's text, completed with what it lacked; `dtype` is the type of its inputs,
    `cast` the type that all floating tensors are cast to (None: each keeps its own). `small_declared`: the
    file itself declares sizes small enough for the emulator, so candidates are verified at them too. `notes`
    tell the user what was decided for the file."""

    name: str
    kind: Literal["module", "cuda"]
    path: str
    source: str
    dtype: Dtype
    signature: Signature
    workloads: tuple[Workload, ...]
    small_declared: bool = False
    cast: Dtype | None = None
    notes: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """16 hexadecimal digits of a SHA-256 that identify the task, computed without `path`, `cast` and
        `notes`: a copy of the file in another place has the same digest."""
        return self.digest_without("path", "cast", "notes")

    @property
    def primary(self) -> Workload:
        """The workload that candidates are timed at: the sizes in the task's file."""
        return self.workload("primary")

    @property
    def held_out(self) -> tuple[Workload, ...]:
        """The fixed workloads with other sizes than the primary one (odd, near, tiny), used in verification;
        may be empty."""
        return tuple(w for w in self.workloads if w.name in ("odd", "near", "tiny"))

    @property
    def smallest(self) -> Workload:
        """The held-out workload (another size than the primary one) with the fewest bytes; the primary one if
        there is none."""
        return min(self.held_out or (self.primary,), key=lambda w: w.total_bytes(self.signature))

    @property
    def small(self) -> Workload | None:
        """The workload that is small enough for the emulator; None if the task has none."""
        return next((w for w in self.workloads if w.name == "small"), None)

    def workload(self, name: str) -> Workload:
        """The task's workload (choice of all sizes) of this name, like "primary" or "small". Raises KeyError
        if it has none."""
        for workload in self.workloads:
            if workload.name == name:
                return workload
        raise KeyError(f"task {self.name} has no workload {name}")
