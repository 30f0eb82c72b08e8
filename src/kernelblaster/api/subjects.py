"""Loads tasks and candidates from what users pass: names, paths, modules, source text."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from kernelblaster import cache
from kernelblaster.errors import BadTask, KernelBlasterError
from kernelblaster.records import Candidate, Task
from kernelblaster.records.signature import Dtype
from kernelblaster.strict_json import InvalidJson, read_bounded
from kernelblaster.tasks import catalog

if TYPE_CHECKING:
    import torch

LARGEST_BYTES = 4 << 20  # of a candidate
LAUNCH = "launch_gpu_implementation"

TaskLike = Union[str, Path, Task, "torch.nn.Module", type]
"""A name of the shipped suites, a file, source text, a module (an instance, or a class) or a task."""
Inputs = Sequence[Any] | Mapping[str, Any]
"""Example inputs of a module: a list, or a dict by name."""
CandidateLike = str | Path | Candidate
"""A `.cu` file, its text, or a candidate."""


def load_task(
    task: TaskLike,
    dtype: Dtype | None = None,
    *,
    inputs: Inputs | str | None = None,
    init: str | None = None,
    name: str | None = None,
) -> Task:
    """Returns the task that `task` stands for (a name of a shipped suite, a file, a module, or source text),
    with its signature (arguments and types) and workloads (choices of all sizes). A Task is returned as it
    is. Raises BadTask if no task can be made of it, or if the arguments contradict each other.

    `inputs` are example inputs. A module needs them, and they determine its types. Names, files and source
    text usually define inputs of their own, whose floating tensors are cast to `dtype` (None: not cast). For
    a module in a file that defines none, `inputs` and `init` are Python expressions (text) for its inputs and
    for the arguments of its constructor. `name` is what a task from a module or from source text is called;
    None: a name is made for it.
    """
    if isinstance(task, str | Path | Task):
        if inputs is not None and not isinstance(inputs, str):
            raise BadTask("example inputs go with a module; for a file, give them as text.")
        if isinstance(task, Task):
            return task
        cast: dict[str, Any] = {} if dtype is None else {"dtype": dtype}
        if isinstance(task, str) and "\n" in task:
            return _from_text(task, cast, name)
        return catalog.load_task(str(task), inputs=inputs, init=init, **cast)
    if inputs is None or isinstance(inputs, str):
        raise BadTask("a module needs example inputs: optimize(module, inputs=[torch.randn(64, 1024)]).")
    if dtype is not None:
        raise BadTask("the types of a module come from its example inputs; leave dtype out.")
    from kernelblaster.tasks.torch_programs import task_from_module

    return task_from_module(task, inputs, name=name)


def load_candidate(candidate: CandidateLike, task: Task | None = None) -> Candidate:
    """Returns the candidate in a `.cu` file or in a text. `candidate` is taken for a text if it has a line
    break, else for a file's name; a Candidate is returned as it is. Raises KernelBlasterError if the file
    cannot be read, or if the source does not mention the launch function that KernelBlaster calls
    (launch_gpu_implementation). If `task` is a CUDA source, the candidate may have the launch function of
    that source instead; a launch_gpu_implementation that calls it is then appended."""
    if isinstance(candidate, Candidate):
        return candidate
    if isinstance(candidate, str) and "\n" in candidate:
        return _checked(Candidate(source=candidate, origin="text"), "the text", task)
    path = Path(candidate)
    try:
        source = read_bounded(path, LARGEST_BYTES).decode()
    except FileNotFoundError as error:
        raise KernelBlasterError(f"{path}: there is no such file.") from error
    except InvalidJson as error:
        raise KernelBlasterError(f"{path}: {error}.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise KernelBlasterError(f"{path}: cannot be read: {error}") from error
    return _checked(Candidate(source=source, origin=str(path)), str(path), task)


def _checked(candidate: Candidate, where: str, task: Task | None) -> Candidate:
    """The candidate, adapted to a CUDA-source task. Raises KernelBlasterError if it has no launch function;
    `where` is its name in the message."""
    if task is not None and task.kind == "cuda":
        from kernelblaster.tasks.cuda_prepare import fitted

        candidate = fitted(candidate, task)
    if LAUNCH not in candidate.source:
        raise KernelBlasterError(
            f"{where}: does not define {LAUNCH}; `kernelblaster tasks show TASK --header` prints the "
            "declaration that a candidate must match."
        )
    return candidate


def _from_text(text: str, cast: dict[str, Any], name: str | None) -> Task:
    """The task in a source text, taken for CUDA if it contains `__global__`, else for Python; `cast` may
    hold a dtype. If `name` is None, the task is named by its digest."""
    path = cache.text_file("given", text, ".cu" if "__global__" in text else ".py")
    return catalog.load_file(name or f"text-{sha256(text.encode()).hexdigest()[:8]}", path, **cast)
