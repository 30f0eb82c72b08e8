"""`export_run`: the best candidate of a run as the text of a file that does not need KernelBlaster."""

from typing import Literal

from kernelblaster.errors import StoreError
from kernelblaster.export.cuda_file import cuda_file
from kernelblaster.export.origin import Origin
from kernelblaster.export.python_file import python_file
from kernelblaster.export.seal import seal
from kernelblaster.quantities import speedup_text
from kernelblaster.records.outcome import CORRECT, Accepted
from kernelblaster.store.history import History
from kernelblaster.store.run import Run
from kernelblaster.store.subject import task_of

Format = Literal["cu", "kernelbench", "module"]


def shortfall(run: Run) -> str:
    """A sentence that says that the run's best candidate is not faster than its baseline; empty if it is.
    Raises StoreError if the run has no correct candidate."""
    evaluation = History(run).best_candidate()[1]
    outcome, timing = evaluation.outcome, evaluation.timing
    if isinstance(outcome, Accepted) or not isinstance(outcome, CORRECT) or timing is None:
        return ""
    speedup = speedup_text(outcome.speedup.estimate, timing.modelled)
    return f"this kernel was not found to be faster than {timing.baseline}: {outcome.kind}, {speedup}."


def export_run(run: Run, form: Format = "cu") -> str:
    """Returns the best candidate of a run as the text of a file that works without KernelBlaster. `form` is
    "cu" for a CUDA source; "kernelbench" (with a class ModelNew) or "module" (with a class OptimizedModel)
    for a Python file. Raises StoreError if the run has nothing to export, KernelBlasterError if it cannot be
    exported in this form."""
    history = History(run)
    candidate, evaluation = history.best_candidate()
    if evaluation.compilation is None:
        raise StoreError(f"{run.name}: does not say what its best candidate was compiled for.")
    architecture = evaluation.compilation.architecture
    origin = Origin(run.name, candidate, evaluation, history.applied, architecture)
    task = task_of(run)
    return seal(cuda_file(task, origin) if form == "cu" else python_file(task, origin, form), form)
