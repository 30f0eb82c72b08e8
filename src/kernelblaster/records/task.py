"""Tasks: what to compute, and what is known about it without running a candidate: the bytes and operations
that any implementation needs, whether the task is fit to be scored and why not, and its workloads."""

from typing import Literal

from kernelblaster.records.record import Record
from kernelblaster.records.signature import Dtype, Signature
from kernelblaster.records.workload import Workload

RoundedProducts = Literal["none", "convolutions", "products"]


class Floor(Record):
    """The least work that any implementation must do at the primary workload, the sizes in the task's file.

    `bytes` counts every input, parameter and output once. `operations` counts the multiplications and
    additions of matrix products, convolutions and attention as written; an algebraic rewrite may need fewer.
    `certain_bytes` counts only inputs that are read in full and on which the output depends; no
    implementation can avoid reading these. So a measured time is refused as impossible only if it is too
    short for `certain_bytes`. `rounded` names the products that PyTorch computes at these sizes on operands
    rounded to TF32; their arithmetic counts at the rate of TF32.
    """

    bytes: int
    certain_bytes: int
    operations: int
    rounded: RoundedProducts = "none"


class Fitness(Record):
    """Whether candidates can be verified and timed for a task. `problems` are the reasons against it, in
    words; empty if they can. `insensitive` lists parameters that the output does not depend on (like a bias
    before a normalization): these are allowed, but whether a candidate uses them cannot be verified.
    `open_choices` names operators (like topk) that leave open which of equal elements they choose, and from
    whose indices the task computes something: there, candidates must choose as PyTorch does. `unordered`: a
    topk leaves the order of its results open, too."""

    problems: tuple[str, ...] = ()
    insensitive: tuple[str, ...] = ()
    open_choices: tuple[str, ...] = ()
    unordered: bool = False

    @property
    def fit(self) -> bool:
        return not self.problems


class Task(Record):
    """What to compute, under a `name`: a PyTorch module (`kind` "module") or a CUDA kernel ("cuda"), with the
    signature and workloads that follow from it. `source` is the text of the file at `path`; what a task needs
    and the file lacks, such as inputs, was added to it. `dtype` is the type that is shown as the task's: for
    a module that of its first floating-point tensor, for a CUDA kernel that of its first output. `cast` is
    the type that all floating tensors are cast to (None: each keeps its own). `small_declared`: the file
    itself declares sizes small enough for the emulator, so candidates are verified at these too. `notes` are
    sentences for the user about what was added or chosen."""

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
        """16 hexadecimal digits of a SHA-256 that identify the task, computed without the fields `path`,
        `cast` and `notes`: a copy of the file in another place has the same digest."""
        return self.digest_without("path", "cast", "notes")

    @property
    def primary(self) -> Workload:
        """The workload that candidates are timed at: the sizes in the task's file."""
        return self.workload("primary")

    @property
    def held_out(self) -> tuple[Workload, ...]:
        """The task's workloads that are used in verification only: those named "odd", "near" and "tiny", with
        other sizes than the primary one. May be empty."""
        return tuple(w for w in self.workloads if w.name in ("odd", "near", "tiny"))

    @property
    def smallest(self) -> Workload:
        """The workload with the fewest bytes among those with other sizes than the primary one (`held_out`);
        the primary one if there are none."""
        return min(self.held_out or (self.primary,), key=lambda w: w.total_bytes(self.signature))

    @property
    def small(self) -> Workload | None:
        """The task's workload that is small enough for the emulator ("small"); None if it has none."""
        return next((w for w in self.workloads if w.name == "small"), None)

    def workload(self, name: str) -> Workload:
        """The task's workload (choice of all sizes) of this name, like "primary" or "small". Raises KeyError
        if it has none."""
        for workload in self.workloads:
            if workload.name == name:
                return workload
        raise KeyError(f"task {self.name} has no workload {name}")
