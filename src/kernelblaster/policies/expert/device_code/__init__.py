"""Device functions that emitted kernels call, as CUDA text, a file each."""

from functools import cache
from pathlib import Path


@cache
def device_code(name: str) -> str:
    """The text of one of the files beside this one."""
    return (Path(__file__).parent / f"{name}.cuh").read_text().rstrip("\n")
