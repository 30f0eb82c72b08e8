"""Hand-written kernels that differ in what matters for speed, and every combination of their constants.

Each file names its task and family as tests/candidates do, and a precision other than float32 in a
line `// dtype: float16`.
"""

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from kernelblaster.judge import sweep
from kernelblaster.records import Candidate, Task
from kernelblaster.tasks.catalog import load_task
from kernelblaster.testing.corpus import ROOT, metadata

FOLDER = Path(__file__).parent
DTYPE = re.compile(r"^// dtype: (\w+)$", re.MULTILINE)


@dataclass(frozen=True)
class Kernel:
    """A kernel's source, its task, and where it stands, relative to the checkout."""

    file: str
    family: str
    task: Task
    candidate: Candidate

    @property
    def title(self) -> str:
        """As a person reads it: `sum_rows BLOCK=32 UNROLL=1`."""
        constants = (f"{name}={value}" for name, value in self.candidate.defines)
        return " ".join([Path(self.file).stem, *constants])


def kernel_files(folder: Path = FOLDER) -> list[Path]:
    return sorted(folder.glob("*.cu"))


def read_kernel(file: Path) -> Kernel:
    """With the constants that the file itself chooses."""
    source = file.read_text()
    header = metadata(source)
    dtype = DTYPE.search(source)
    task = _task(header["task"], dtype[1] if dtype else "float32")
    candidate = Candidate(source=source, origin=file.name)
    return Kernel(str(file.relative_to(ROOT)), header.get("family", "other"), task, candidate)


def read_variants(file: Path) -> list[Kernel]:
    """One for each combination of the constants that the file declares."""
    kernel = read_kernel(file)
    return [
        Kernel(kernel.file, kernel.family, kernel.task, candidate)
        for candidate in sweep.variants(kernel.candidate)
    ]


@functools.cache
def _task(name: str, dtype: str) -> Task:
    path = ROOT / name
    return load_task(str(path) if path.exists() else name, dtype)  # type: ignore[arg-type]
