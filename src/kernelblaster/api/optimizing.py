"""`optimize`, `resume` and `compile`: from a task to a faster kernel."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from kernelblaster.api.result import OptimizeResult
from kernelblaster.api.searching import (
    SearchRequest,
    named_models,
    runs_folder,
    search_of,
    search_run,
    start_run,
)
from kernelblaster.api.subjects import Inputs, TaskLike, load_task
from kernelblaster.errors import KernelBlasterError
from kernelblaster.fleet.opening import fleet_named
from kernelblaster.knowledge.address import knowledge_at
from kernelblaster.opening import DeviceKind
from kernelblaster.plain_text import printable
from kernelblaster.quantities import speedup_text, time_text
from kernelblaster.records import Task
from kernelblaster.records.signature import Dtype
from kernelblaster.records.step import Gained
from kernelblaster.search.model_use import ModelUse, models_of
from kernelblaster.sessions.log import Progress
from kernelblaster.sessions.settings import Search
from kernelblaster.store.control import raise_budget
from kernelblaster.store.run import open_run

if TYPE_CHECKING:
    import torch

OnStep = Callable[[Progress], None]


class StepWatch:
    """Receives a search's progress (`Watch`) for the Python API: calls `on_step` after each step. If
    `on_step` is None and standard error is a terminal, writes to it instead: a line for each stage of the
    judge's work until the first step, and then a line for each step. Otherwise does nothing."""

    def __init__(self, on_step: OnStep | None) -> None:
        self._on_step = on_step
        self._stages: set[str] | None = set()

    def __call__(self, progress: Progress) -> None:
        if progress.phase != "stepped":
            return
        if self._on_step is not None:
            self._on_step(progress)
        else:
            self._stages = None
            self.say(step_line(progress))

    def stage(self, stage: str) -> None:
        if self._stages is not None and stage not in self._stages:
            self._stages.add(stage)
            self.say(stage)

    def say(self, text: str) -> None:
        if self._on_step is None and sys.stderr.isatty():
            print(f"kernelblaster: {printable(text)}", file=sys.stderr, flush=True)


def step_line(progress: Progress) -> str:
    """Returns one line of text on the step that `progress` tells of: how many candidates were judged, the
    technique, the speedup it gained (or how it failed), the time of its candidate and of the best one."""
    judged = f"{progress.evaluations} of {progress.evaluations + progress.evaluations_left} judged"
    result = progress.result
    got = "" if result is None or isinstance(result, Gained) else result.kind
    if isinstance(result, Gained):
        got = speedup_text(result.speedup, progress.modelled)
        own = time_text(progress.own_us, progress.modelled)
        got += f", {own}" if own else ""
    line = f"{judged}: {progress.technique or 'first candidate'} {got}".rstrip()
    best = time_text(progress.best_us, progress.modelled)
    return f"{line}; best {best}" if best else line


def optimize(
    task: TaskLike,
    inputs: Inputs | None = None,
    *,
    device: DeviceKind = "auto",
    gpu: str | None = None,
    model: str | ModelUse | None = None,
    budget: int | Search | None = None,
    quick: bool = False,
    knowledge: str | Path | None = None,
    runs: str | Path | None = None,
    dtype: Dtype | None = None,
    filter: Literal["emulated"] | None = None,
    sanitize: bool = False,
    fleet: str | None = None,
    on_step: OnStep | None = None,
) -> OptimizeResult:
    """Searches for a faster CUDA kernel for a task: profiles a candidate, names what bounds it (its
    performance state), applies techniques that gained in this state before, judges the results, and remembers
    them for later searches. Returns the best candidate with its source, verdict, speedup and times.

    task: a name of the shipped suites, a file, source text, or a module, which needs example `inputs`.
    device, gpu: where candidates run; without a GPU they run on the PTX machine, an emulator that stands for
        `gpu`, and times are modelled.
    model: a language model that takes part, KIND:NAME; none is needed.
    budget: the number of candidates to judge; or a `Search`, which has all settings.
    quick: do not search: the best known recipe is applied and judged, within seconds.
    knowledge: the knowledge base that is read and taught, a path or URL; the user's own if left out.
    runs: the folder in which the run is kept; the user's own if left out.
    dtype: the type to cast the task's floating tensors to; its own if left out. Not for modules.
    filter, sanitize: on a GPU, have the PTX machine check candidates before the GPU runs them
        (`filter="emulated"`), and have compute-sanitizer check those that are correct.
    fleet: whose devices judge: `local` (all of this machine), `auto` (the Ray cluster that runs on
        this machine, else this machine alone), `ray://HOST:PORT`; this machine's first device if left out.
    on_step: called with a `Progress` after each step; if left out, and with a terminal, a line for each step
        is written to standard error.

    The run can be interrupted, and continued by `resume`."""
    loaded = load_task(task, dtype, inputs=inputs)
    models = named_models(model)
    if quick and models is not None:
        raise KernelBlasterError("quick=True asks no model and searches nothing: leave out one of the two.")
    search = search_of(budget, models)
    wanted = SearchRequest(
        task=_named(task, loaded),
        search=search.model_copy(update={"quick": True}) if quick else search,
        knowledge=knowledge_at(knowledge),
        device=device,
        gpu=gpu,
        dtype=dtype,
        models=models,
        filter=filter,
        sanitize=sanitize,
    )
    with start_run(loaded, wanted, runs_folder(runs)) as run:
        search_run(run, models, wanted.knowledge, StepWatch(on_step), fleet_named(fleet))
    return OptimizeResult(run.folder, _instance(task), inputs)


def resume(
    run: str | Path,
    *,
    runs: str | Path | None = None,
    budget: int | None = None,
    knowledge: str | None = None,
    usd: float | None = None,
    tokens: int | None = None,
    fleet: str | None = None,
    on_step: OnStep | None = None,
) -> OptimizeResult:
    """Continues a run where it stopped, and returns its best candidate with source, verdict and times. `run`
    is the run's name, a unique beginning of that, its folder, or `last`; `runs` is the folder of runs, None
    for the user's own. `budget` is a new limit on the candidates judged, those judged before included; with
    it, a run that had ended is continued. `knowledge` is the URL of the run's knowledge base with its
    password, if it has one, since runs do not record it. `usd` and `tokens` are new limits on what language
    models may cost in the whole run, what they have cost so far included; None leaves the old ones. `fleet`
    names the devices that judge, such as `local`; None: the first one of this machine. `on_step` is called
    with a `Progress` after each step. Raises KernelBlasterError if `budget` candidates are judged already."""
    with open_run(runs_folder(runs), run, writing=True) as opened:
        raise_budget(opened, budget, "python")
        models = models_of(opened, usd, tokens)
        search_run(opened, models, knowledge, StepWatch(on_step), fleet_named(fleet))
    return OptimizeResult(opened.folder)


def load_run(run: str | Path = "last", *, runs: str | Path | None = None) -> OptimizeResult:
    """Returns the result of a recorded run, which may still be going on: its best candidate so far, with
    source, verdict and times. `run` is its name, a unique beginning of the name, its folder, or `last`;
    `runs` is the folder of runs, None for the user's own. Raises StoreError if no candidate of the run is
    correct."""
    with open_run(runs_folder(runs), run) as opened:
        return OptimizeResult(opened.folder)


def compile(module: "torch.nn.Module", inputs: Inputs, **options: Any) -> "torch.nn.Module":
    """Searches for a faster kernel for a module and returns a module that runs it. `inputs` are example
    inputs; `options` are the other arguments of `optimize`. The result shares the parameters of `module`. For
    a call that its kernel cannot do (no GPU, other sizes or types), it runs the code of `module` instead. The
    same as `optimize(module, inputs, **options).module()`."""
    return optimize(module, inputs, **options).module()


def _named(task: TaskLike, loaded: Task) -> str:
    """The task's name for the run: as the user gave it if that is a name or a path, else the loaded
    task's."""
    return str(task) if isinstance(task, str | Path) and "\n" not in str(task) else loaded.name


def _instance(task: TaskLike) -> "torch.nn.Module | None":
    """The task if it is a module instance, whose parameters the result takes over; else None."""
    import torch

    return task if isinstance(task, torch.nn.Module) else None
