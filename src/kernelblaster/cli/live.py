"""Shows the progress of one search: on a terminal by lines that are redrawn, otherwise by a line for each
step."""

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from math import log
from typing import TYPE_CHECKING, Protocol

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kernelblaster.building import telling
from kernelblaster.cli.show import out
from kernelblaster.cli.terminal import Terminal
from kernelblaster.quantities import speedup_text, time_text
from kernelblaster.records.step import Gained

if TYPE_CHECKING:
    from kernelblaster.sessions.log import Progress

WIDTH = 40
SHOWN = 6
LONGEST_TECHNIQUE = 34  # columns; a recipe may have more
PLACE = "steps by iteration/rollout/step/choice, from 0"
QUIET_SECONDS = 2  # after which a stage says how long it takes


class SearchView(Protocol):
    """Interface of an object that shows one search to the user. The object itself is called with the search's
    progress. Its method `stage` is called with what the judge is doing now (such as "compiling"), `say` with
    messages for a person."""

    def __call__(self, progress: "Progress") -> None: ...

    def stage(self, stage: str) -> None: ...

    def say(self, text: str) -> None: ...


class SilentSearch:
    """The view of a search that shows no progress, as for `--json`. Only messages for a person are printed,
    on standard error."""

    def __call__(self, progress: "Progress") -> None:
        pass

    def stage(self, stage: str) -> None:
        pass

    def say(self, text: str) -> None:
        Terminal(stderr=True).print(text, highlight=False, soft_wrap=True)


class SearchLines:
    """Shows a search in logs and pipes: prints one line when a step has ended, and before the first one what
    the numbers mean that it begins with."""

    def __init__(self) -> None:
        self._explained = False

    def __call__(self, progress: "Progress") -> None:
        if progress.phase == "stepped" and progress.step is not None:
            if not self._explained:
                out.print(f"  {PLACE}", style="dim", highlight=False, soft_wrap=True)
                self._explained = True
            taken = "taken" if progress.step.taken else "not taken"
            own = time_text(progress.own_us, progress.modelled)
            got = ", ".join(filter(None, (_measured(progress), own)))
            line = f"  {progress.step.id!s:10} {_tried(progress)}, got {got:34} {taken:9}  "
            out.print(f"{line} {_times(progress)}; {progress.state}", highlight=False, soft_wrap=True)
            if progress.why:
                out.print(f"  {'':10} {progress.why}", markup=False, highlight=False, soft_wrap=True)

    def stage(self, stage: str) -> None:
        pass

    def say(self, text: str) -> None:
        out.print(text, highlight=False, soft_wrap=True)


class LiveSearch:
    """Shows a search on a terminal, by a few lines that are redrawn: its best time, what is left of its
    budget, and its last steps. `title` is the first of these lines."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._stage = "starting"
        self._since = time.monotonic()
        self._progress: Progress | None = None
        self._steps: deque[Progress] = deque(maxlen=SHOWN)
        self._news: list[str] = []

    def __call__(self, progress: "Progress") -> None:
        self._progress = progress
        if progress.phase == "stepped":
            self._steps.append(progress)

    def stage(self, stage: str) -> None:
        self._stage = stage
        self._since = time.monotonic()

    def say(self, text: str) -> None:
        self._news.append(text)

    def __rich__(self) -> Group:
        parts: list[Text | Table] = [Text(self._title, style="bold")]
        progress = self._progress
        if progress is not None:
            parts += [Text(f"  {_times(progress)}"), Text(f"  {bar(progress, WIDTH)}")]
            parts.append(Text(f"  left  {left(progress)}"))
            parts += [self._last_steps()] if self._steps else []
            parts.append(Text(f"  now   {_now(progress)}", no_wrap=True, overflow="ellipsis"))
        parts.append(Text(f"        {self._stage}{self._seconds()}", style="dim"))
        parts += [Text(f"  {text}", style="yellow") for text in self._news]
        return Group(*parts)

    def _seconds(self) -> str:
        """The duration of the judge's current stage as text, so that a person sees that nothing hangs; empty
        before QUIET_SECONDS."""
        seconds = time.monotonic() - self._since
        return f", {seconds:.0f} s" if seconds >= QUIET_SECONDS else ""

    def _last_steps(self) -> Table:
        """A table of the steps made last, for the live view: technique, predicted and actual speedup,
        state."""
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for title in ("  step", "technique", "predicted", "got"):
            table.add_column(title, no_wrap=True)
        table.add_column("in state")
        for step in self._steps:
            style = "green" if step.step is not None and step.step.taken else "dim"
            technique = Text(step.technique or "")
            technique.truncate(LONGEST_TECHNIQUE, overflow="ellipsis")
            predicted = f"{step.predicted:.2f}x" if step.predicted else ""
            state = Text("; ".join(filter(None, (step.state, step.why))), no_wrap=True, overflow="ellipsis")
            table.add_row(
                f"  {_step_number(step)}", technique, predicted, _measured(step), state, style=style
            )
        return table


@contextmanager
def show_search(title: str, quiet: bool) -> Iterator[SearchView]:
    """A context that shows one search while it runs: on a terminal by lines that are redrawn, in a pipe by a
    line for each step, not at all if `quiet`. It yields the object to which progress is reported. `title` is
    the first line shown."""
    if quiet:
        yield SilentSearch()
        return
    if not out.is_terminal:
        lines = SearchLines()
        lines.say(title)
        yield lines
        return
    view = LiveSearch(title)
    with Live(view, console=out, refresh_per_second=4), telling(view.stage):
        yield view


def bar(progress: "Progress", width: int) -> str:
    """Returns a progress bar of `width` cells as text, with a percentage behind it. On a logarithmic scale,
    it shows how far the best time has come from the first candidate's time towards the floor (the least time
    that the GPU's bandwidth and peak rates allow); `|` marks the baseline's time. Empty until something was
    timed."""
    first, floor = progress.first_us, progress.floor_us
    if not first or not floor or not progress.best_us or first <= floor:
        return ""
    done = _part(progress.best_us, first, floor)
    cells = ["█" if index < round(done * width) else "░" for index in range(width)]
    if progress.baseline_us:
        cells[min(width - 1, round(_part(progress.baseline_us, first, floor) * width))] = "|"
    return "".join(cells) + f" {done:.0%} of the way to the floor"


def left(progress: "Progress") -> str:
    """Returns, as text, how much of a search's limits is left, then how much has been used: '12 candidates,
    340 s; 28 judged in 60 s'. `progress` is the state of the search."""
    parts = [f"{progress.evaluations_left} candidate{'' if progress.evaluations_left == 1 else 's'}"]
    if progress.seconds_left is not None:
        parts.append(f"{progress.seconds_left:.0f} s")
    if progress.gpu_seconds_left is not None:
        parts.append(f"{progress.gpu_seconds_left:.0f} s of the GPU")
    return f"{', '.join(parts)}; {progress.evaluations} judged in {progress.seconds:.0f} s"


def _part(us: float, first: float, floor: float) -> float:
    """How much of the way from the first candidate's time `first` to `floor`, the least that the GPU allows,
    the time `us` has come, on a logarithmic scale: from 0 to 1. All times are in us."""
    return min(1.0, max(0.0, log(first / us) / log(first / floor)))


def _times(progress: "Progress") -> str:
    """The best time as text, with the first candidate's, the baseline's and the floor (the least that the GPU
    allows) beside it, in us."""
    if progress.best_us is None:
        return "nothing timed yet"
    parts = [f"best {time_text(progress.best_us, progress.modelled)}"]
    named = (("first", progress.first_us), ("baseline", progress.baseline_us), ("floor", progress.floor_us))
    parts += [f"{name} {us:.1f}" for name, us in named if us is not None]
    return ", ".join(parts)


def _step_number(progress: "Progress") -> str:
    """The step's number as iteration/rollout/step (a rollout is one chain of steps); between steps the
    iteration alone."""
    if progress.id is None:
        return str(progress.iteration)
    return f"{progress.id.iteration}/{progress.id.rollout}/{progress.id.number}"


def _now(progress: "Progress") -> str:
    """What the search is doing now, as text: the step with its technique and performance state, or
    learning."""
    if progress.phase == "learned":
        return f"learned from iteration {progress.iteration}"
    predicted = f", predicted {progress.predicted:.2f}x" if progress.predicted else ""
    return f"{_step_number(progress)} {progress.technique}{predicted}, in {progress.state}"


def _tried(progress: "Progress") -> str:
    """The technique that a step tries and the speedup predicted for it, as text."""
    technique = progress.technique or ""
    return f"{technique:28} predicted {progress.predicted:.2f}x" if progress.predicted else technique


def _measured(progress: "Progress") -> str:
    """What came of a step, as text: its speedup or the kind of failure; empty while it is not judged."""
    result = progress.result
    if result is None:
        return ""
    return speedup_text(result.speedup, progress.modelled) if isinstance(result, Gained) else result.kind
