"""Compiles a candidate on whichever machine this runs; needs neither a GPU nor PyTorch."""

from kernelblaster.fleet.compiled_object import CompiledObject, pack
from kernelblaster.judge.compile import Binary, compile_candidate
from kernelblaster.records import Candidate, Outcome, Task
from kernelblaster.settings import hide_gpus


def compile_packed(
    task: Task, candidate: Candidate, architecture: str
) -> tuple[Outcome | None, CompiledObject | None]:
    """Compiles a candidate for `architecture` (like sm_90a) on this machine: (None, the compiled candidate)
    or (why it was not compiled, None). To be called in a process of its own, which sees no GPU from then
    on."""
    hide_gpus()
    made = compile_candidate(task, candidate, architecture)
    return (None, pack(made)) if isinstance(made, Binary) else (made, None)
