"""Finds out which commands will work on a task, and why others will not, by trying the first stages of each
without a device."""

from collections.abc import Callable

from kernelblaster.devices.toolchain import toolchain
from kernelblaster.errors import KernelBlasterError
from kernelblaster.export.module_facts import module_facts
from kernelblaster.export.python_file import changes, check_names
from kernelblaster.judge.eager_trace import trace
from kernelblaster.judge.emulate import small_workload
from kernelblaster.judge.screen_source import screen_source
from kernelblaster.plain_text import one_line
from kernelblaster.policies.expert.policy import ExpertPolicy
from kernelblaster.records import Fitness, Task
from kernelblaster.records.record import Record
from kernelblaster.tasks.cuda_prepare import in_own_lines


class Readiness(Record):
    """Whether one command works on a task: `verb` is the command as it is typed (`optimize --device
    emulated`), `why` the reason why it would fail; None means that it will work."""

    verb: str
    why: str | None = None

    @property
    def works(self) -> bool:
        return self.why is None


def readiness_of(task: Task, fitness: Fitness) -> tuple[Readiness, ...]:
    """Returns for each command that takes a task whether it will work on `task`. The first stages of the
    command are tried, which takes a second or two in all and needs no device. `fitness` says whether the
    task's reference can be scored at all; if it cannot, no command works. Without a usable compiler (nvcc),
    commands that judge candidates do not work."""
    unfit = None if fitness.fit else f"unfit to be scored: {fitness.problems[0]}"
    judged = unfit or _problem(toolchain) or _problem(lambda: _screened(task))
    expert = judged or _problem(lambda: ExpertPolicy().initial(task))
    emulated = judged or _problem(lambda: _emulated(task))
    verbs = {
        "evaluate": judged,
        "evaluate --device emulated": emulated,
        "optimize": expert,
        "optimize --device emulated": expert or emulated,
        "optimize --model": judged,
        "bench": expert,
        "export --format cu": unfit,
        "export --format kernelbench": unfit or _problem(lambda: _as_python(task, module=False)),
        "export --format module": unfit or _problem(lambda: _as_python(task, module=True)),
    }
    return tuple(Readiness(verb=verb, why=why) for verb, why in verbs.items())


def _problem(attempt: Callable[[], object]) -> str | None:
    """Calls `attempt` and returns the message of the exception that it raises, as one line; None if it raises
    none."""
    try:
        attempt()
    except KernelBlasterError as error:
        return one_line(str(error))
    except Exception as error:  # of the module or of torch.export: the verb would end with it too
        return one_line(f"{type(error).__name__}: {error}")[:300]
    return None


def _screened(task: Task) -> None:
    """Raise if a CUDA-source task's own kernel, which is the reference and the baseline, breaks a rule for
    candidates."""
    findings = screen_source(task.source) if task.kind == "cuda" else []
    if findings:
        line, detail = findings[0].line, findings[0].detail
        where = f"line {line}: " if line else ""
        raise KernelBlasterError(in_own_lines(f"{where}{detail}", task.source))


def _emulated(task: Task) -> None:
    """Raise if the task cannot be judged on the emulated device: none of its workloads is small enough, or
    its module cannot be traced."""
    small_workload(task)
    if task.kind == "module":
        trace(task, task.primary)


def _as_python(task: Task, *, module: bool) -> None:
    """Raise if the task's candidates cannot be exported as Python; `module` means as a drop-in torch module,
    which a module that changes its buffers prevents."""
    if task.kind != "module":
        raise KernelBlasterError("a CUDA source has no module to stand in for.")
    check_names(task)
    facts = module_facts(task)
    if facts.changed_buffers and module:
        raise KernelBlasterError(f"{changes(facts)}.")
