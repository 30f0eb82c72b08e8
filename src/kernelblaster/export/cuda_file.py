"""Exports a candidate as a `.cu` file that says where it comes from, compiles on its own, and can be judged
again."""

from kernelblaster.export.origin import Origin, header_lines
from kernelblaster.plain_text import comment
from kernelblaster.records import Candidate, Task
from kernelblaster.tasks.header import declaration, includes


def cuda_file(task: Task, origin: Origin) -> str:
    """Returns the text of a `.cu` file with a run's best candidate for `task`, which compiles on its own.
    Comments say where it comes from and how to compile it; `origin` has these facts."""
    number = origin.architecture.removeprefix("sm_")
    build = f"nvcc -O3 -std=c++17 -shared -Xcompiler -fPIC -gencode=arch=compute_{number},code=sm_{number}"
    lines = [f"// {line}" for line in (*header_lines(origin), comment(f"build: {build}"))]
    return "\n".join(lines) + "\n" + complete_source(task, origin.candidate)


def complete_source(task: Task, candidate: Candidate) -> str:
    """Returns the source of a candidate for `task` with what the judge puts before it when compiling:
    includes, the declaration of the launch function, and the chosen values of tunable constants."""
    chosen = "".join(f"#ifndef {n}\n#define {n} {v}\n#endif\n" for n, v in candidate.defines)
    declared = declaration(task.signature, task.name)
    return f"{includes(declared + candidate.source)}\n{declared}\n{chosen}{candidate.source.rstrip()}\n"
