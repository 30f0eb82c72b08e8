"""The result of a run: its verdict, the source, exported files, and an optimized module."""

import importlib.util
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelblaster.api.subjects import Inputs
from kernelblaster.errors import KernelBlasterError
from kernelblaster.export.run import Format, export_run
from kernelblaster.models.spending import ModelCall, calls_of
from kernelblaster.quantities import speedup_text, time_text
from kernelblaster.records import Candidate, Step
from kernelblaster.records.evaluation import Timing
from kernelblaster.records.outcome import CORRECT, Speedup
from kernelblaster.settings import settings
from kernelblaster.store.files import write_whole
from kernelblaster.store.history import History
from kernelblaster.store.run import Run

if TYPE_CHECKING:
    import torch

    from kernelblaster.api.drop_in import GivenModule

SUFFIXES: dict[str, Format] = {".cu": "cu", ".py": "module"}
MODULE_FILE = "optimized.py"


class OptimizeResult:
    """The result of a run, read from the run's folder (`run`): the best candidate, or the best so far if the
    run has not ended. Times are in microseconds; if `modelled`, they come from a model of the GPU. Making
    this object raises StoreError if the run has no correct candidate.

    `original` and `inputs` matter only to `module()`, which returns a module that runs the best kernel.
    `original` is the module that was optimized, `inputs` are its example inputs.
    (1) With both, the result is like `original` and shares its parameters.
    (2) With `original` alone, it is of the class that `export` writes, with copies of the parameters of
    `original`.
    (3) Without `original`, it is of that class, built with the task's own constructor arguments.
    """

    def __init__(
        self, run: Path, original: "torch.nn.Module | None" = None, inputs: Inputs | None = None
    ) -> None:
        self.run = run
        self._original = original
        self._given: GivenModule | None = None
        if original is not None and inputs is not None:
            from kernelblaster.api import drop_in  # imports torch

            self._given = drop_in.GivenModule.of(original, inputs)
        with Run(run, writing=False) as opened:
            self._history = History(opened)
        self._candidate, self.evaluation = self._history.best_candidate()

    # What was found

    @property
    def task(self) -> str:
        return self._history.task

    @property
    def device(self) -> str:
        return self.evaluation.device

    @property
    def candidate(self) -> Candidate:
        return self._candidate

    @property
    def source(self) -> str:
        """The CUDA source of the best candidate."""
        return self._candidate.source

    @property
    def verdict(self) -> str:
        """The best candidate's outcome: `Accepted` (faster than the baseline), `Slower`, or `Inconclusive`
        (the confidence interval of the speedup contains 1)."""
        return self.evaluation.outcome.kind

    @property
    def speedup(self) -> float:
        """The baseline's time divided by the best candidate's. The baseline is eager PyTorch or, for a CUDA
        source, the original kernel. `interval` is the confidence interval; if `modelled` is set, times are
        modelled and not measured."""
        return self._speedup.estimate

    @property
    def interval(self) -> tuple[float, float]:
        """The confidence interval of `speedup`, as (lower end, upper end)."""
        return self._speedup.low, self._speedup.high

    @property
    def modelled(self) -> bool:
        """True if the run's times come from a model of the GPU, because the run was made without one; False
        if they are measured."""
        return self.timing.modelled

    @property
    def timing(self) -> Timing:
        """Times in microseconds of the best candidate, the baseline (eager PyTorch or the original CUDA
        kernel), and the floor, which is the least time that the GPU's bandwidth and peak rates allow."""
        assert self.evaluation.timing is not None
        return self.evaluation.timing

    @property
    def gain(self) -> float | None:
        """The speedup of the best candidate over the run's first correct candidate (`speedup` is over the
        baseline); None if it is not known."""
        first = self._history.first
        return self.speedup / first.speedup if first and first.speedup else None

    # How

    @property
    def finished(self) -> bool:
        """True if the search has ended by itself; False if it was interrupted, or stopped because its budget
        of dollars or tokens for language models was spent."""
        return self._history.finished

    @property
    def applied(self) -> tuple[str, ...]:
        """The techniques that led from the first candidate to the best one, in order; empty if the first is
        the best."""
        return self._history.applied

    @cached_property
    def trajectory(self) -> list[Step]:
        """Every step that the search tried, failed ones included, in the order of judging."""
        return self._history.steps

    @property
    def learned(self) -> dict[str, Any] | None:
        """What the run has changed in the knowledge base, as JSON data. "techniques" has the expected speedup
        of each technique before and after the run, "states" the performance states that it added. None until
        the run has ended."""
        return self._history.learned

    # To go on with

    @property
    def calls(self) -> list[ModelCall]:
        """Every call to a language model, with its role in the search, step, tokens, dollars and seconds;
        empty if no model took part. The texts of questions and answers are in the run's `question` and
        `answer` events."""
        return calls_of(self.run)

    def export(self, path: str | Path | None = None, format: Format | None = None) -> str:
        """Returns the text of a file that works without KernelBlaster, and writes it to `path` if given.

        `format` says what it is. `cu`: the CUDA source. `module`: a Python file with a torch module, which
        runs the original for inputs that the kernel was not verified on. `kernelbench`: a Python file with a
        class `ModelNew`. None: `module` if the path ends in `.py`, else `cu`."""
        suffix = Path(path).suffix if path is not None else ""
        with Run(self.run, writing=False) as opened:
            text = export_run(opened, format or SUFFIXES.get(suffix, "cu"))
        if path is not None:
            write_whole(Path(path).absolute(), text, mode=0o666)
        return text

    def report(self, path: str | Path = "report.html") -> Path:
        """Writes a report on the run to `path`, with every step and the reasons for it, and returns the path.
        It is one HTML file that needs no other files."""
        from kernelblaster.report.writing import read, write

        contents = read([str(self.run)], self.run.parent, settings().data / "benches")
        return write(contents, Path(path), set())[0]

    def module(self) -> "torch.nn.Module":
        """Returns a module that runs the best kernel. For a call that the kernel cannot do (no GPU, or inputs
        that it was not verified on), the module runs the original code instead, with a warning that says why.
        What else the module is depends on how this OptimizeResult was made.
        (1) With `original` and `inputs`: of a class derived from that of `original`, with the same signature
        and attributes. The two modules share their parameters.
        (2) With `original` only, or if the kernel does not have as many inputs as there are tensors in
        `inputs`: of the class OptimizedModel that `export` writes, with copies of the parameters of
        `original`, and in its training mode.
        (3) Without `original`: of the class OptimizedModel, built with the task's own constructor arguments.

        Raises KernelBlasterError if the task cannot be exported as a module (a CUDA source, for example) or,
        in case (2), if the parameters do not fit.
        """
        loaded = self._loaded()
        if self._given is not None:
            from kernelblaster.api.drop_in import with_kernel

            dropped_in = with_kernel(self._given, loaded)
            if dropped_in is not None:
                return dropped_in
        arguments = loaded.get_init_inputs()
        named = isinstance(arguments, dict)
        made = loaded.OptimizedModel(**arguments) if named else loaded.OptimizedModel(*arguments)
        return made if self._original is None else _like(made, self._original)

    def _loaded(self) -> Any:
        """The exported Python file, written into the run's folder and imported as a module."""
        path = self.run / MODULE_FILE
        self.export(path, "module")
        spec = importlib.util.spec_from_file_location(f"kernelblaster_{self.run.name}", path)
        assert spec is not None and spec.loader is not None
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
        return loaded

    # Showing

    def __repr__(self) -> str:
        speedup = speedup_text(self.speedup, self.modelled, 3)
        return f"<{self.task} on {self.device}: {self.verdict}, {speedup}; run {self.run.name}>"

    def _repr_html_(self) -> str:
        low, high = self.interval
        between = f"between {low:.3f} and {high:.3f}"
        sure = f"{between}, by the model's own error" if self.modelled else between
        timing = self.timing
        rows = {
            "verdict": f"{self.verdict}: {speedup_text(self.speedup, self.modelled, 3)}, {sure}",
            "time": f"{time_text(timing.candidate_us, self.modelled)}; {timing.baseline} "
            f"{time_text(timing.baseline_us, self.modelled)}; floor {timing.floor_us:.1f} us",
            "device": self.device,
            "applied": ", ".join(self.applied) or "nothing: the first candidate is the best",
            "run": str(self.run),
        }
        lines = "".join(
            f"<tr><th style='text-align:left'>{name}</th><td style='text-align:left'>{escape(text)}</td></tr>"
            for name, text in rows.items()
        )
        return (
            f"<b>{escape(self.task)}</b><table>{lines}</table>"
            f"<details><summary>source</summary><pre>{escape(self.source)}</pre></details>"
        )

    @property
    def _speedup(self) -> Speedup:
        outcome = self.evaluation.outcome
        assert isinstance(outcome, CORRECT)
        return outcome.speedup


def _like(made: "torch.nn.Module", original: "torch.nn.Module") -> "torch.nn.Module":
    """`made` with the parameters, the training mode, the device and the dtype of `original`. Raises
    KernelBlasterError if the parameters do not fit."""
    try:
        made.load_state_dict(original.state_dict())
    except RuntimeError as error:
        raise KernelBlasterError(f"the parameters of the given module do not fit: {error}") from error
    first = next(original.parameters(), None)
    if first is not None:
        made.to(device=first.device, dtype=first.dtype)
    return made.train(original.training)
