"""Parses a `.cu` file as a task, whose tensors and sizes are declared in comments (docs/tasks.md)."""

import re

from kernelblaster.errors import BadTask
from kernelblaster.records import Signature, Size, Tensor, Workload
from kernelblaster.records.signature import DTYPE_BYTES, Role
from kernelblaster.records.workload import WorkloadName
from kernelblaster.tasks.probe import FreeSize, near_sizes, odd_sizes

LONGEST_SIZE = 12  # digits
MARK = "kernelblaster-task"
SIZE = re.compile(r"(\w+)\s*=\s*(\d+)(?:\s*,\s*small\s+(\d+))?(\s*,\s*fixed)?\s*$")
TENSOR = re.compile(r"(\w+)\s+(\w+)\s*\[([\w\s,]*)\]\s*(.*)$")
VALUE = re.compile(r"(\w+)\s*=\s*(-?\d+(?:\.\d*)?(?:e[+-]?\d+)?)\s*$")
LINE = re.compile(r"\s*//\s*(size|output|input|parameter|value):\s*(.*?)\s*$")
DISTRIBUTIONS = re.compile(r"(normal|uniform|positive|bool|below \w+)?$")


def is_declared(source: str) -> bool:
    """Whether a CUDA source declares its tensors in comments: some line begins with `// input:` or `//
    output:`."""
    found = (LINE.match(line) for line in source.splitlines())
    return any(match is not None and match[1] in ("output", "input") for match in found)


class CudaFile:
    """The declarations in the comments of a CUDA source. `distributions` maps the name of each input and
    parameter to how its values are drawn ("normal", "below N"). `values` maps the names of scalar arguments
    of the launch function to their fixed values, as text. `path` is the file's name for messages. Raises
    BadTask if a declaration is malformed (the message has its line), or if there is no output or no input."""

    def __init__(self, source: str, path: str) -> None:
        self.path = path
        self.distributions: dict[str, str] = {}
        self.values: dict[str, str] = {}
        self._sizes: dict[str, tuple[int, int, bool]] = {}
        self._tensors: list[Tensor] = []
        for number, line in enumerate(source.splitlines(), 1):
            match = LINE.match(line)
            if match:
                self._declare(match[1], match[2], number)
        self._check()

    @property
    def signature(self) -> Signature:
        def of(role: Role) -> tuple[Tensor, ...]:
            return tuple(t for t in self._tensors if t.role == role)

        return Signature(
            outputs=of("output"),
            inputs=of("input"),
            parameters=of("parameter"),
            sizes=tuple(
                Size(name=name, kind="fixed" if fixed else "free")
                for name, (_, _, fixed) in self._sizes.items()
            ),
        )

    def workloads(self) -> tuple[Workload, ...]:
        """Returns the five workloads (choices of all sizes): "primary" with the declared values, which is
        timed; "odd", "near" and "tiny" with other values, for verification; and "small" with the values
        declared as `small`, for the emulator. A size declared `fixed` has the same value in all of them,
        except in "small" if a `small` value is declared for it."""
        free = {
            name: FreeSize(dimensions=(), value=value, other=value + 1)
            for name, (value, _, fixed) in self._sizes.items()
            if not fixed
        }
        base = {name: value for name, (value, _, _) in self._sizes.items()}
        small = {name: value for name, (_, value, _) in self._sizes.items()}
        tiny = {name: min(small[name], 3 + 2 * i) for i, name in enumerate(free)}
        numbered = enumerate(free.items())
        odd = {name: (odd_sizes(i, size) or [size.value])[0] for i, (name, size) in numbered}
        near = {name: near_sizes(i, size)[0] for i, (name, size) in enumerate(free.items())}
        choices: list[tuple[WorkloadName, dict[str, int]]] = [
            ("primary", {}),
            ("odd", odd),
            ("near", near),
            ("tiny", tiny),
            ("small", small),
        ]
        return tuple(Workload(name=name, sizes=base | choice) for name, choice in choices)

    def _declare(self, kind: str, text: str, line: int) -> None:
        """Record the declaration of one comment line `kind: text`; `line` is its number, for messages. Raises
        BadTask if it is malformed."""
        where = f"{self.path}:{line}"
        if kind == "size":
            match = SIZE.match(text)
            if not match:
                raise BadTask(f"{where}: expected 'size: NAME = NUMBER, small NUMBER', got '{text}'")
            if any(len(number) > LONGEST_SIZE or int(number) < 1 for number in match.groups()[1:3] if number):
                raise BadTask(f"{where}: a size should be from 1 to {10**LONGEST_SIZE - 1}")
            value = int(match[2])
            usual = value if match[4] else min(value, 16)
            self._sizes[match[1]] = (value, int(match[3]) if match[3] else usual, bool(match[4]))
            return
        if kind == "value":
            match = VALUE.match(text)
            if not match:
                raise BadTask(f"{where}: expected 'value: NAME = NUMBER', got '{text}'")
            self.values[match[1]] = match[2]
            return
        match = TENSOR.match(text)
        if not match:
            raise BadTask(f"{where}: expected '{kind}: NAME TYPE [SIZES] DISTRIBUTION', got '{text}'")
        name, dtype, dims, distribution = match.groups()
        if dtype not in DTYPE_BYTES:
            raise BadTask(f"{where}: type {dtype} is not one of {', '.join(DTYPE_BYTES)}")
        if not DISTRIBUTIONS.match(distribution):
            raise BadTask(f"{where}: distribution '{distribution}' is not known (see docs/tasks.md)")
        names = tuple(d.strip() for d in dims.split(",") if d.strip())
        unknown = [d for d in names if d not in self._sizes]
        if unknown:
            raise BadTask(f"{where}: size {unknown[0]} is not declared above this line")
        self._tensors.append(Tensor(name=name, role=kind, dtype=dtype, dims=names))  # type: ignore[arg-type]
        if kind != "output":
            default = "normal" if self._tensors[-1].floating else "below 2"
            self.distributions[name] = distribution or default

    def _check(self) -> None:
        """Checks that the comments declare a task. Raises BadTask unless there is at least one output and one
        input."""
        roles = {t.role for t in self._tensors}
        for role in ("output", "input"):
            if role not in roles:
                raise BadTask(f"{self.path}: no '// {role}:' line; see docs/tasks.md")
