"""Shows the progress of many searches (a bench or an ablation): on a terminal by lines that are redrawn,
otherwise by a line for each result."""

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kernelblaster.cli.show import out
from kernelblaster.cli.terminal import Terminal
from kernelblaster.quantities import speedup_text, time_text

if TYPE_CHECKING:
    from kernelblaster.bench.jobs import JobResult, Measured
    from kernelblaster.bench.searching import News

SHOWN = 12  # searches that go on, and the last ones that ended; less where the terminal is low
AROUND = 6  # lines of the view beside them


class Overview(Protocol):
    """Interface of an object that shows the progress of a bench. The object itself is called with news of the
    bench's searches. Its method `measured` is called with each final measurement of a search's best candidate
    against a baseline."""

    def __call__(self, news: "News") -> None: ...

    def measured(self, one: "Measured") -> None: ...


class SilentBench:
    """The view of a bench that shows no progress, as for `--json`. Only messages for a person are printed, on
    standard error."""

    def __call__(self, news: "News") -> None:
        if news.words:
            Terminal(stderr=True).print(news.words, markup=False, highlight=False, soft_wrap=True)

    def measured(self, one: "Measured") -> None:
        pass


class Rate:
    """Counts the candidates that searches have judged since this object was made (`judged`). Those that a
    search had judged before it was continued are left out. As text: "120 candidates judged in 60 s: 120 a
    minute"."""

    def __init__(self) -> None:
        self._start = self._last = time.monotonic()
        self._before: dict[str, int] = {}
        self._now: dict[str, int] = {}

    def hear(self, news: "News") -> None:
        if not news.job:
            return
        if news.kind == "began":
            self._before[news.job] = news.evaluations
        count = news.result.spent.evaluations if news.result else news.evaluations
        self._now[news.job] = max(count, self._now.get(news.job, 0))
        self._last = time.monotonic()

    @property
    def judged(self) -> int:
        return sum(count - self._before.get(job, 0) for job, count in self._now.items())

    def __str__(self) -> str:
        seconds = self._last - self._start
        rate = f": {60 * self.judged / seconds:.0f} a minute" if self.judged and seconds > 1 else ""
        return f"{self.judged} candidates judged in {seconds:.0f} s{rate}"


class BenchLines:
    """Shows a bench in logs and pipes: prints one line for each search that has ended and each final
    measurement. `total` is the number of searches, `done` how many of these had ended before."""

    def __init__(self, total: int, done: int) -> None:
        self._total = total
        self._done = done
        self.rate = Rate()

    def __call__(self, news: "News") -> None:
        self.rate.hear(news)
        if news.result is not None:
            self._done += 1
            line = f"{self._done}/{self._total}  {news.result.job:50} {_result_text(news.result)}"
            out.print(line, markup=False, highlight=False, soft_wrap=True)
        elif news.words:
            out.print(news.words, markup=False, highlight=False, soft_wrap=True)

    def measured(self, one: "Measured") -> None:
        how = "modelled" if _modelled(one) else "measured"
        out.print(f"{how}  {one.job:50} {_compared(one)}", markup=False, highlight=False, soft_wrap=True)


class LiveBench:
    """Shows a bench on a terminal, by lines that are redrawn: running searches, the last results, and how
    many searches are left. `title` is the first line, `total` the number of searches, `done` how many of
    these had ended before."""

    def __init__(self, title: str, total: int, done: int) -> None:
        self._title = title
        self._total = total
        self._done = done
        self._now: dict[str, News] = {}
        self._ended: list[tuple[str, str, str]] = []
        self.rate = Rate()
        self._words = ""

    def __call__(self, news: "News") -> None:
        self.rate.hear(news)
        if news.words:
            self._words = news.words
            return
        if not news.job:
            return
        if news.result is not None:
            self._now.pop(news.job, None)
            self._done += 1
            style = "green" if news.result.status == "valid" else "yellow"
            self._ended.append((news.result.job, _result_text(news.result), style))
            return
        self._now[news.job] = news

    def measured(self, one: "Measured") -> None:
        self._ended.append((one.job, _compared(one), "cyan"))

    def __rich__(self) -> Group:
        head = f"{self._done} of {self._total} searched; {self.rate}"
        bar = Table.grid()  # a bar alone does not end its line
        bar.add_row(ProgressBar(total=self._total, completed=self._done, width=50))
        shown = max(2, min(SHOWN, (out.height - AROUND) // 2))
        ended, now = _lines(), _lines()
        for job, text, style in self._ended[-shown:]:
            ended.add_row(job, _cut(text), style=style)
        for job, news in list(self._now.items())[:shown]:
            now.add_row(job, _cut(f"{_times(news)}; {news.evaluations} judged"))
        words = [Text(self._words, style="yellow")] if self._words else []
        return Group(Text(self._title, style="bold"), bar, Text(head), ended, now, *words)


@contextmanager
def show_bench(title: str, jobs: Sequence[str], quiet: bool, done: Collection[str]) -> Iterator[Overview]:
    """A context that shows a bench while it runs: on a terminal by lines that are redrawn, in a pipe by a
    line for each result, not at all if `quiet`. It yields the object to which progress is reported. `title`
    is the first line shown, `jobs` are the keys of all searches, `done` the keys of those that had ended
    before."""
    if quiet:
        yield SilentBench()
    elif not out.is_terminal:
        out.print(f"{title}: {len(jobs)} searches", highlight=False, soft_wrap=True)
        lines = BenchLines(len(jobs), len(done))
        yield lines
        out.print(str(lines.rate), highlight=False)
    else:
        view = LiveBench(title, len(jobs), len(done))
        with Live(view, console=out, refresh_per_second=4):
            yield view


def _lines() -> Table:
    """An empty table without borders, to show jobs and a text on each in."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 2))
    table.add_column(no_wrap=True)
    table.add_column()
    return table


def _cut(text: str) -> Text:
    """A text for one line of a table on the terminal: never wrapped, cut with an ellipsis at the edge."""
    return Text(text, no_wrap=True, overflow="ellipsis")


def _result_text(result: "JobResult") -> str:
    """The result of one search of a bench on one line: the times in us of the first candidate, the best one
    and eager PyTorch, or why there are none."""
    if result.status != "valid" or result.best_us is None:
        return f"{result.status}: {result.reason[:150]}"
    best = time_text(result.best_us, result.modelled)
    times = f"{result.first_us:.1f} -> {best}, eager {result.baseline_us:.1f}"
    return f"{times}; {result.spent.evaluations} judged in {result.spent.seconds:.0f} s"


def _modelled(one: "Measured") -> bool:
    """Whether a measurement's times come from a model of the GPU; such a speedup's interval has no confidence
    level."""
    return one.speedup is not None and one.speedup.confidence is None


def _compared(one: "Measured") -> str:
    """One final measurement on one line: the speedup over its baseline, or why there is none."""
    if one.speedup is None:
        return f"{one.baseline}: {one.outcome}: {one.reason[:150]}"
    return f"{speedup_text(one.speedup.estimate, _modelled(one))} against {one.baseline}"


def _times(news: "News") -> str:
    """The best, first and eager PyTorch's time of a running search as text, in us; "preparing" until
    something was timed."""
    if news.best_us is None:
        return "preparing"
    best = time_text(news.best_us, news.modelled)
    return f"best {best}, first {news.first_us:.1f}, eager {news.baseline_us:.1f}"
