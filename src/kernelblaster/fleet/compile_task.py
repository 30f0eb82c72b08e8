"""Compiles a candidate on whichever machine this runs; needs neither a GPU nor PyTorch."""

from kernelblaster.fleet.compiled_object import CompiledObject, pack
from kernelblaster.judge.compile import Binary, compile_candidate
from kernelblaster.records import Candidate, Outcome, Task
from kernelblaster.settings import hide_gpus


def compile_packed(
    task: Task, candidate: Candidate, architecture: str
) -> tuple[Outcome | None, CompiledObject | None]:
    """Screens and compiles a candidate for `task` on this machine, for `architecture` (like sm_90a). Returns
    (None, the compiled candidate) or, if it fails, (the outcome that says why, None). To be called in a
    process of its own, because it hides all GPUs from the process for good."""
    hide_gpus()
    made = compile_candidate(task, candidate, architecture)
    return (None, pack(made)) if isinstance(made, Binary) else (made, None)
