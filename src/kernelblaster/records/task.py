"""What to compute, and what is known about it without running a candidate."""

from typing import Literal

from kernelblaster.records.record import Record
from kernelblaster.records.signature import Dtype, Signature
from kernelblaster.records.workload import Workload


class Floor(Record):
    """The least that any implementation must spend on the primary workload.

    `bytes` counts every input, parameter and output once. `operations` counts the
    multiplications and additions of matrix products, convolutions and attention as written; an
    algebraic rewrite may need fewer, so only `certain_bytes` is used to refuse a time as
    impossible: inputs that are read in full and that the output responds to.
    """

    bytes: int
    certain_bytes: int
    operations: int


class Fitness(Record):
    """Whether the task can be scored: `problems` is empty for a fit task.

    `insensitive` lists parameters to which the output does not respond (a bias before a
    normalization): allowed, but nothing can be demanded about them.
    """

    problems: tuple[str, ...] = ()
    insensitive: tuple[str, ...] = ()

    @property
    def fit(self) -> bool:
        return not self.problems


class Task(Record):
    """A reference with its derived signature and workloads. `source` is the file's text, with what it left
    out; `dtype` the type of its inputs, `cast` what all floating tensors are cast to (None: each keeps its
    own type); `small_declared` says that the file itself gives its small workload, so that a candidate can
    be held to it. `notes` tell a person what was decided for the file."""

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
        """Of what it asks for; a copy of its file, elsewhere, asks for the same."""
        return self.digest_without("path", "cast", "notes")

    @property
    def primary(self) -> Workload:
        return self.workload("primary")

    @property
    def held_out(self) -> tuple[Workload, ...]:
        return tuple(w for w in self.workloads if w.name in ("odd", "near", "tiny"))

    @property
    def smallest(self) -> Workload:
        """The held-out workload with the least memory; the primary one where none is held out."""
        return min(self.held_out or (self.primary,), key=lambda w: w.total_bytes(self.signature))

    @property
    def small(self) -> Workload | None:
        return next((w for w in self.workloads if w.name == "small"), None)

    def workload(self, name: str) -> Workload:
        for workload in self.workloads:
            if workload.name == name:
                return workload
        raise KeyError(f"task {self.name} has no workload {name}")
