"""One CUDA source file for a task, and the constants in it that may be swept."""

from kernelblaster.records.record import Record


class Tunable(Record):
    """A preprocessor constant that the source declares as free to vary."""

    name: str
    values: tuple[int, ...]


class Candidate(Record):
    """A `.cu` text with who made it, from which parent, and chosen values for its tunables."""

    source: str
    origin: str = "file"
    parent: str | None = None
    defines: tuple[tuple[str, int], ...] = ()

    @property
    def code(self) -> str:
        """16 hexadecimal digits that identify what is compiled, whoever wrote it."""
        return Candidate(source=self.source, defines=self.defines).digest

    def with_defines(self, defines: dict[str, int]) -> "Candidate":
        return self.model_copy(update={"defines": tuple(sorted(defines.items()))})
