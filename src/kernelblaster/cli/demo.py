"""`kernelblaster demo`: the first five minutes. Everything that it shows is done while one watches."""

import re
from difflib import unified_diff
from math import exp
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from kernelblaster.cli.options import JudgeOptions, working
from kernelblaster.cli.show import out
from kernelblaster.errors import KernelBlasterError
from kernelblaster.knowledge.content import Content
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.knowledge.recipes import is_recipe
from kernelblaster.records import Step, Verification
from kernelblaster.store.history import History
from kernelblaster.store.run import open_run
from kernelblaster.strategies.search import Search

if TYPE_CHECKING:
    from kernelblaster.api import OptimizeResult

RACY = ("core/level1/softmax", "racy_softmax.cu")
FIRST, SECOND = "core/level1/cosine_similarity", "core/level1/logsumexp"
BUDGETS = {FIRST: 7, SECOND: 6}
MEASURED = {FIRST: (6.98, 1.90), SECOND: (7.78, 1.38)}
"""Speedups measured on an H200, over eager and over torch.compile (results/core-h200/report.csv)."""
LINES_SHOWN = 24  # of a difference


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
    from kernelblaster.api import emulate

    task, name = RACY
    file = _examples_folder() / name
    with working(False) as progress:
        progress("running it on the PTX machine, every access watched")
        outcome = emulate(task, file).outcome
    assert not isinstance(outcome, Verification), "the race was not found"
    _tell(f"{outcome.kind}: {getattr(outcome, 'reason', '')}", style="red")
    race = next(line for line in getattr(outcome, "evidence", "").splitlines() if line.startswith("race "))
    _tell(race, hang=2)
    for number, text in enumerate(file.read_text().splitlines(), 1):
        if re.search(rf"line {number}\b", race):
            _tell(f"  {number:3} | {text.strip()}", style="bold")


def _search(task: str, folder: Path, device: JudgeOptions.DeviceName) -> "OptimizeResult":
    """As `optimize` does it, with a small budget."""
    from kernelblaster.api import Progress, optimize

    budget = Search(iterations=1, rollouts=1, evaluations=BUDGETS[task])
    with working(False) as progress:
        progress("judging the first candidate")

        def on_step(now: Progress) -> None:
            progress(f"{now.evaluations} of {BUDGETS[task]} candidates judged; {now.technique}")

        return optimize(
            task,
            device=device,
            budget=budget,
            knowledge=folder / "knowledge.db",
            runs=folder / "runs",
            on_step=on_step,
        )


def _way(found: "OptimizeResult") -> list[Step]:
    """The steps from the first candidate to the best."""
    way: list[Step] = []
    best, by_child = found.candidate.code, {step.child: step for step in reversed(found.trajectory)}
    while best in by_child and len(way) < len(found.trajectory):
        way.insert(0, by_child[best])
        best = way[0].parent
    return way


def _sources(found: "OptimizeResult") -> dict[str, str]:
    """Every candidate by its code, in the order in which they were judged."""
    with open_run(found.run.parent, found.run) as run:
        history = History(run)
        return {judged.code: history.source_of(judged) for judged in history.judged}


def _needed(found: "OptimizeResult") -> int:
    """After how many candidates the best was found."""
    return list(_sources(found)).index(found.candidate.code) + 1


def _show_speed(task: str, found: "OptimizeResult") -> None:
    timing = found.timing
    how = "modelled" if found.modelled else "measured"
    _tell(
        f"{found.speedup:.1f}x as fast as eager PyTorch, {how}: {timing.candidate_us:.0f} us instead of "
        f"{timing.baseline_us:.0f} on {found.device}; at least {timing.floor_us:.0f} us are needed to move "
        "the bytes.",
        style="green",
    )
    eager, compiled = MEASURED[task]
    _tell(
        f"Measured on an H200, where a search found a kernel of its own: {eager:.2f}x over eager, "
        f"{compiled:.2f}x over torch.compile (docs/how-it-compares.md)."
    )


def _show_way(found: "OptimizeResult", folder: Path) -> None:
    with KnowledgeBase(folder.absolute() / "knowledge.db") as knowledge:
        content = knowledge.content()
    for number, step in enumerate(_way(found), 1):
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


def _show_difference(found: "OptimizeResult") -> None:
    way, sources = _way(found), _sources(found)
    if not way:
        return
    step = way[-1]
    before, after = sources[step.parent].splitlines(), sources[step.child].splitlines()
    lines = list(unified_diff(before, after, lineterm="", n=1))[2:]
    _tell(f"The last step, {step.technique}, as a difference:")
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in lines[:LINES_SHOWN]:
        out.print(Text("    " + line, style=colours.get(line[:1], "")), no_wrap=True, overflow="ellipsis")
    if len(lines) > LINES_SHOWN:
        _tell(f"  ... and {len(lines) - LINES_SHOWN} lines more; all of it is on the page below.")


def _show_profit(first: "OptimizeResult", second: "OptimizeResult") -> None:
    recipe = next((step for step in _way(second) if is_recipe(step.technique)), None)
    needed = _needed(first)
    if recipe is None:
        _tell(f"Its best took {_needed(second)} candidates; {FIRST} had needed {needed}.")
        return
    _tell(
        f"Known from {FIRST}: {recipe.technique} pay together. They were tried in one step: "
        f"expected {recipe.predicted:.2f}x over the plain kernel, got {_gained(recipe)}."
    )
    _tell(
        f"That is candidate 2; the first task came to them with candidate {needed}. {needed - 2} were saved."
    )


def _show_remains(folder: Path, first: "OptimizeResult") -> None:
    module = folder / "cosine_similarity.py"
    first.export(module)
    first.report(folder / "report.html")
    _tell(f"page       {folder / 'report.html'}")
    _tell(f"export     {module}, a torch module that needs nothing of this", hang=11)
    _tell(f"knowledge  {folder / 'knowledge.db'}")
    _say("Go on with")
    for command in (
        "kernelblaster optimize core/level2/scale_mask_softmax --budget 10",
        "kernelblaster optimize my_module.py           # or my_kernel.cu",
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
