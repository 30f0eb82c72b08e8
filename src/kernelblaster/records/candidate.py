"""A candidate: one CUDA source file for a task, with values for its tunable constants."""

from kernelblaster.records.record import Record


class Tunable(Record):
    """A preprocessor constant that the source declares as tunable, and the values to try."""

    name: str
    values: tuple[int, ...]


class Candidate(Record):
    """The text of a `.cu` file. `origin` says who made it, `parent` is the digest of the candidate it was
    made from, `defines` are values of its tunable constants."""

    source: str
    origin: str = "file"
    parent: str | None = None
    defines: tuple[tuple[str, int], ...] = ()

    @property
    def code(self) -> str:
        """16 hexadecimal digits that identify what is compiled, regardless of origin and parent."""
        return Candidate(source=self.source, defines=self.defines).digest

    def with_defines(self, defines: dict[str, int]) -> "Candidate":
        return self.model_copy(update={"defines": tuple(sorted(defines.items()))})
