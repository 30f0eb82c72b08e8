"""`kernelblaster demo`: the first five minutes. Everything that it shows is done while one watches."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import unified_diff
from math import exp
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from kernelblaster.cli.options import JudgeOptions, read_candidate, working
from kernelblaster.cli.show import out
from kernelblaster.errors import KernelBlasterError
from kernelblaster.knowledge.content import Content
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.recipes import is_recipe
from kernelblaster.knowledge.seed import plant
from kernelblaster.records import Evaluation, Step, Verification
from kernelblaster.records.outcome import CORRECT
from kernelblaster.settings import settings
from kernelblaster.store.files import write_whole
from kernelblaster.store.history import History
from kernelblaster.store.results import leave_results
from kernelblaster.store.run import Run, create_run, open_run
from kernelblaster.store.subject import keep_task
from kernelblaster.strategies.search import Search
from kernelblaster.tasks.catalog import load_task

if TYPE_CHECKING:
    from kernelblaster.optimize import Tell

RACY = ("core/level1/softmax", "racy_softmax.cu")
FIRST, SECOND = "core/level1/cosine_similarity", "core/level1/logsumexp"
BUDGETS = {FIRST: 7, SECOND: 6}
MEASURED = {FIRST: (6.98, 1.90), SECOND: (7.78, 1.38)}
"""Speedups measured on an H200, over eager and over torch.compile (results/core-h200/report.csv)."""
RACES_SHOWN = 1
LINES_SHOWN = 24  # of a difference


@dataclass(frozen=True)
class Searched:
    """A search that ended: where it is kept, the verdict on its best, the steps that led to it, and after how
    many candidates it was found."""

    run: Path
    best: Evaluation
    way: list[Step]
    needed: int


def demo(
    folder: Annotated[Path, typer.Option(help="Where to work; made anew.")] = Path("kernelblaster-demo"),
    device: JudgeOptions.Device = "auto",
) -> None:
    """The first five minutes: a race is caught, a module made faster, and the next one profits from it.

    Nothing in it is prepared. It takes about a minute on two cores without a GPU, and another one the first
    time, when the emulator is built.
    """
    folder = _unused(folder)
    _say("1. What works here")
    _show_machine()
    _say("2. A kernel with a race", "softmax.cu without one barrier: a mistake that tests on a GPU can miss.")
    _show_race()
    _say(f"3. A search: {FIRST}", "A plain kernel first, then what pays in the state that its profile shows.")
    first = _search(FIRST, folder, device)
    _show_speed(FIRST, first)
    _show_way(first, folder)
    _show_difference(first)
    _say(f"4. The next task: {SECOND}", "It starts from what the first one taught.")
    second = _search(SECOND, folder, device)
    _show_speed(SECOND, second)
    _show_profit(first, second)
    _say("5. What remains")
    _show_remains(folder, first)


def _unused(folder: Path) -> Path:
    """This folder, or one beside it where it is taken: an earlier demo has taught its knowledge base."""
    tried = (folder.with_name(f"{folder.name}-{number}") for number in range(2, 1000))
    free = next((one for one in (folder, *tried) if not one.exists()), None)
    if free is None:
        raise KernelBlasterError(f"{folder}: is there already, as are 998 others; name another --folder.")
    return free


def _examples_folder() -> Path:
    """Inside the package when installed, beside the sources in a checkout."""
    inside = Path(__file__).parent.parent / "examples"
    return inside if inside.is_dir() else Path(__file__).parents[3] / "examples"


def _show_machine() -> None:
    from kernelblaster.doctor import examine

    with working(False) as progress:
        progress("looking at this machine")
        findings = examine()
    broken = [f for f in findings if f.needed and f.state == "missing"]
    if broken:
        raise KernelBlasterError(f"{broken[0].subject}: {broken[0].detail} {broken[0].advice}".rstrip())
    by_subject = {finding.subject: finding for finding in findings}
    _tell(f"device    {by_subject['device'].detail}", hang=10)
    _tell(f"compiler  {by_subject['compiler'].detail}", hang=10)
    limited = ", ".join(f.subject for f in findings if f.state != "ok")
    _tell(f"limited   {limited or 'nothing'}; `kernelblaster doctor` says more")


def _show_race() -> None:
    from kernelblaster.api import open_judge

    task, name = RACY
    if not (settings().cache / "ptx").is_dir():
        _tell("The emulator is built first: about a minute on two cores, once.")
    source = read_candidate(_examples_folder() / name)
    with working(False) as progress:
        progress("running it on the PTX machine, every access watched")
        with open_judge("emulated", progress=progress) as judge:
            outcome = judge.check(load_task(task), source).outcome
    assert not isinstance(outcome, Verification), "the race was not found"
    _tell(f"{outcome.kind}: {getattr(outcome, 'reason', '')}", style="red")
    races = [line for line in getattr(outcome, "evidence", "").splitlines() if line.startswith("race ")]
    for line in races[:RACES_SHOWN]:
        _tell(line, hang=2)
    lines = source.source.splitlines()
    for number, text in enumerate(lines, 1):
        if any(f"line {number} " in race or f"line {number}," in race for race in races[:RACES_SHOWN]):
            _tell(f"  {number:3} | {text.strip()}", style="bold")


def _search(task: str, folder: Path, device: JudgeOptions.DeviceName) -> Searched:
    """As `optimize` does it, with a small budget."""
    from kernelblaster.api import open_searching
    from kernelblaster.optimize import optimize

    knowledge_file = folder.absolute() / "knowledge.db"
    search = Search(iterations=1, rollouts=1, evaluations=BUDGETS[task])
    about = {"task": task, "dtype": "float32", "device": device, "gpu": None, "kb": str(knowledge_file)}
    loaded = load_task(task)
    with (
        create_run(folder / "runs", **about, search=search.model_dump()) as run,
        KnowledgeBase(knowledge_file) as knowledge,
        _watched(task) as tell,
        open_searching(device) as judge,
    ):
        keep_task(run, loaded)
        plant(knowledge)
        found = optimize(loaded, judge, knowledge, run, search, tell=tell)
        leave_results(run, found.candidate, found.applied, knowledge)
        order = [judged.code for judged in History(run).judged]
        way = _way(found.candidate.code, found.steps)
        return Searched(run.folder, found.evaluation, way, order.index(found.candidate.code) + 1)


@contextmanager
def _watched(task: str) -> Iterator["Tell"]:
    """Keeps one line up to date on what the search does."""
    with working(False) as progress:
        progress("opening the device")
        yield lambda now: progress(
            f"{now.evaluations} of {BUDGETS[task]} candidates judged; {now.technique or 'learning'}"
        )


def _way(best: str, steps: list[Step]) -> list[Step]:
    """The steps from the first candidate to the best."""
    way: list[Step] = []
    by_child = {step.child: step for step in reversed(steps)}
    while best in by_child and len(way) < len(steps):
        way.insert(0, by_child[best])
        best = way[0].parent
    return way


def _show_speed(task: str, found: Searched) -> None:
    outcome, timing = found.best.outcome, found.best.timing
    assert isinstance(outcome, CORRECT) and timing is not None
    how = "modelled" if timing.modelled else "measured"
    _tell(
        f"{outcome.speedup.estimate:.1f}x as fast as eager PyTorch, {how}: {timing.candidate_us:.0f} us "
        f"instead of {timing.baseline_us:.0f} on {found.best.device}; at least {timing.floor_us:.0f} us are "
        "needed to move the bytes.",
        style="green",
    )
    eager, compiled = MEASURED[task]
    _tell(
        f"Measured on an H200, where a search found a kernel of its own: {eager:.2f}x over eager, "
        f"{compiled:.2f}x over torch.compile (results/core-h200)."
    )


def _show_way(found: Searched, folder: Path) -> None:
    with KnowledgeBase(folder.absolute() / "knowledge.db") as knowledge:
        content = knowledge.content()
    for number, step in enumerate(found.way, 1):
        bound = content.states[content.resolve(step.state)].state.description
        _tell(f"{number}. {step.state}: {bound}", hang=3)
        _tell(f"   {step.technique}: {_described(content, step.technique)}", hang=5)
        _tell(f"     expected {step.predicted:.2f}x, got {_gained(step)}")


def _gained(step: Step) -> str:
    return step.result if isinstance(step.result, str) else f"{exp(step.result):.2f}x"


def _described(content: Content, technique: str) -> str:
    """The first sentence on a technique, whichever state has one."""
    known = (entry.description for entry in content.living_entries if entry.technique == technique)
    return next((text for text in known if text), "").split(". ", maxsplit=1)[0]


def _show_difference(found: Searched) -> None:
    if not found.way:
        return
    step = found.way[-1]
    with open_run(found.run.parent, found.run.name) as run:
        before, after = _sources(run, step)
    lines = list(unified_diff(before, after, lineterm="", n=1))[2:]
    _tell(f"The last step, {step.technique}, as a difference:")
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in lines[:LINES_SHOWN]:
        out.print(Text("    " + line, style=colours.get(line[:1], "")), no_wrap=True, overflow="ellipsis")
    if len(lines) > LINES_SHOWN:
        _tell(f"  ... and {len(lines) - LINES_SHOWN} lines more; all of it is on the page below.")


def _sources(run: Run, step: Step) -> tuple[list[str], list[str]]:
    history = History(run)
    texts = {judged.code: history.source_of(judged).splitlines() for judged in history.judged}
    return texts[step.parent], texts[step.child]


def _show_profit(first: Searched, second: Searched) -> None:
    recipe = next((step for step in second.way if is_recipe(step.technique)), None)
    if recipe is None:
        _tell(f"Its best took {second.needed} candidates; {FIRST} had needed {first.needed}.")
        return
    _tell(
        f"Known from {FIRST}: {recipe.technique} pay together. They were tried in one step: "
        f"expected {recipe.predicted:.2f}x over the plain kernel, got {_gained(recipe)}."
    )
    _tell(
        f"That is candidate 2; the first task came to them with candidate {first.needed}. "
        f"{first.needed - 2} were saved."
    )


def _show_remains(folder: Path, first: Searched) -> None:
    from kernelblaster.export.run import export_run
    from kernelblaster.report.writing import read, write

    runs = folder / "runs"
    write(read([str(runs)], runs, settings().data / "benches"), folder / "report.html")
    module = folder / "cosine_similarity.py"
    with open_run(runs, first.run.name) as run:
        write_whole(module.absolute(), export_run(run, "module"), mode=0o666)
    _tell(f"page       {folder / 'report.html'}")
    _tell(f"export     {module}, a torch module that needs nothing of this", hang=11)
    _tell(f"knowledge  {folder / 'knowledge.db'}")
    _say("Go on with")
    for command in (
        "kernelblaster optimize core/level2/scale_mask_softmax --budget 10",
        "kernelblaster tasks check my_module.py        # is my own file a task?",
        f"kernelblaster kb report --kb {folder / 'knowledge.db'}",
    ):
        _tell(command)


def _say(title: str, sentence: str = "") -> None:
    out.print(f"\n{title}", style="bold", highlight=False)
    if sentence:
        out.print(sentence, highlight=False)


def _tell(text: str, style: str = "", hang: int = 0) -> None:
    """A paragraph; lines after its first are indented by `hang` more."""
    indents = {"initial_indent": "  ", "subsequent_indent": " " * (2 + hang)}
    wrapped = fill(text, out.width, break_long_words=False, break_on_hyphens=False, **indents)  # type: ignore[arg-type]
    out.print(wrapped, style=style, highlight=False, soft_wrap=True)
