"""A candidate: one CUDA source file for a task, with values for its tunable constants."""

from kernelblaster.records.record import Record


class Tunable(Record):
    """A preprocessor constant (`name`) that a candidate's source declares as tunable, and the integer
    `values` to try for it."""

    name: str
    values: tuple[int, ...]


class Candidate(Record):
    """One implementation of a task. `source` is the text of a `.cu` file. `defines` has the values of its
    tunable preprocessor constants as (name, value). `origin` says where it comes from, such as "file".
    `parent` is the `digest` of the candidate from which it was made; None for a first one."""

    source: str
    origin: str = "file"
    parent: str | None = None
    defines: tuple[tuple[str, int], ...] = ()

    @property
    def code(self) -> str:
        """16 hexadecimal digits that identify what is compiled: a hash of source and defines, whatever origin
        and parent are."""
        return Candidate(source=self.source, defines=self.defines).digest

    def with_defines(self, defines: dict[str, int]) -> "Candidate":
        """Returns a copy whose tunable preprocessor constants have the values `defines`, by name; all earlier
        values are dropped."""
        return self.model_copy(update={"defines": tuple(sorted(defines.items()))})
