"""Facts about problems of a public suite: which operators run, on which shapes, how often."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Ran:
    """One operator with the shapes of its tensors (other arguments by value), and how often it ran so."""

    operator: str  # "convolution.default"
    arguments: tuple[Any, ...]
    result: Any
    times: int

    @property
    def name(self) -> str:
        """Without overload: "convolution"."""
        return self.operator.partition(".")[0].rstrip("_").lstrip("_") or self.operator

    @property
    def operand(self) -> Shape:
        """The shape of the tensor that it works on: the first, for `addmm` the second."""
        return self.tensors[1] if self.name == "addmm" else self.tensors[0]

    @property
    def tensors(self) -> list[Shape]:
        """Shapes of the arguments that may be tensors, lists of tensors left out."""
        return [a for a in self.arguments if isinstance(a, tuple) and all(isinstance(n, int) for n in a)]

    @property
    def output(self) -> Shape:
        """The shape of the first result."""
        first = self.result[0] if self.result and isinstance(self.result[0], tuple) else self.result
        return tuple(first)


@dataclass(frozen=True)
class Problem:
    """`inputs` are shapes, or numbers; `megabytes` those of inputs, parameters and outputs; the times are
    milliseconds of PyTorch, None where they are not known."""

    name: str
    inputs: tuple[Any, ...]
    operators: tuple[Ran, ...]
    megabytes: float
    eager_ms: float | None = None
    compile_ms: float | None = None

    @property
    def level(self) -> int:
        return int(self.name.removeprefix("level").partition("/")[0])


def read_problems(path: Path) -> Iterator[Problem]:
    """The problems of a file with one JSON object a line."""
    for line in path.read_text().splitlines():
        row = json.loads(line)
        yield Problem(
            row["problem"],
            _tuples(row["inputs"]),
            tuple(Ran(op["op"], _tuples(op["args"]), _tuples(op["out"]), op["times"]) for op in row["ops"]),
            row["mb"],
            row.get("eager_ms"),
            row.get("compile_ms"),
        )


def _tuples(value: Any) -> Any:
    return tuple(_tuples(part) for part in value) if isinstance(value, list) else value
