"""`kernelblaster demo`: a tour of what KernelBlaster does. All results that it shows are computed while it
runs."""

import re
import shutil
import sys
from difflib import unified_diff
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from kernelblaster.cli.confined import confine_command, make_folder
from kernelblaster.cli.options import DeviceName, DeviceOption, show_status
from kernelblaster.cli.show import out
from kernelblaster.errors import KernelBlasterError
from kernelblaster.knowledge.content import Content
from kernelblaster.knowledge.knowledge_base import KnowledgeBase
from kernelblaster.quantities import kind_text
from kernelblaster.records import Step, Verification
from kernelblaster.records.recipe import is_recipe
from kernelblaster.sessions.settings import Search
from kernelblaster.store.history import History
from kernelblaster.store.run import open_run

if TYPE_CHECKING:
    from kernelblaster.api import OptimizeResult

NO_BREAK = "\N{NO-BREAK SPACE}"
RACY = ("core/level1/softmax", "racy_softmax.cu")
FIRST, SECOND = "core/level1/cosine_similarity", "core/level1/logsumexp"
BUDGETS = {FIRST: 7, SECOND: 2}
MEASURED = {FIRST: (6.98, 1.90), SECOND: (7.78, 1.38)}
"""Speedups measured on an H200, over eager and over torch.compile (results/core-h200/report.csv)."""
LINES_SHOWN = 24  # of a diff


def demo(
    folder: Annotated[Path, typer.Option(help="Where to work; made anew.")] = Path("kernelblaster-demo"),
    device: DeviceOption = "auto",
) -> None:
    """The first five minutes: a race is caught, a module made faster, and the next one profits from it.

    Nothing in it is prepared. It takes about a minute on two cores without a GPU, and half a minute more the
    first time, when the emulator is built.
    """
    folder = _unused(folder)
    make_folder(folder)
    confine_command([RACY[0], FIRST, SECOND], device=device, fills=[folder])
    _print_title("1. What works here")
    _show_machine()
    _print_title(
        "2. A kernel with a race", "softmax.cu without one barrier: a mistake that tests on a GPU can miss."
    )
    _show_race()
    _print_title(
        f"3. A search: {FIRST}", "A plain kernel first, then what pays in the state that its profile shows."
    )
    first = _search(FIRST, folder, device)
    _show_speed(FIRST, first)
    _show_path(first, folder)
    _show_difference(first)
    _print_title(f"4. The next task: {SECOND}", "It starts from what the first one taught.")
    second = _search(SECOND, folder, device)
    _show_speed(SECOND, second)
    _show_transfer(first, second)
    _print_title("5. What remains")
    _show_remains(folder, first)


def _unused(folder: Path) -> Path:
    """The folder if it does not exist, else the first free one of `folder-2`, `folder-3` and so on: the
    knowledge base of an earlier demo has already learned. Raises KernelBlasterError if all are taken."""
    tried = (folder.with_name(f"{folder.name}-{number}") for number in range(2, 1000))
    free = next((one for one in (folder, *tried) if not one.exists()), None)
    if free is None:
        raise KernelBlasterError(f"{folder}: is there already, as are 998 others; name another --folder.")
    return free


def _examples_folder() -> Path:
    """The examples: inside the package when installed, beside the sources in a checkout."""
    inside = Path(__file__).parent.parent / "examples"
    return inside if inside.is_dir() else Path(__file__).parents[3] / "examples"


def _show_machine() -> None:
    from kernelblaster.doctor import examine

    with show_status(False) as progress:
        progress("looking at this machine")
        findings = examine()
    broken = [f for f in findings if f.needed and f.state == "missing"]
    if broken:
        raise KernelBlasterError(f"{broken[0].subject}: {broken[0].detail} {broken[0].advice}".rstrip())
    by_subject = {finding.subject: finding for finding in findings}
    _print(f"device    {by_subject['device'].detail}", hang=10)
    _print(f"compiler  {by_subject['compiler'].detail}", hang=10)
    limited = ", ".join(f.subject for f in findings if f.state != "ok")
    _print(f"limited   {limited or 'nothing'}; `kernelblaster doctor` says more")


def _show_race() -> None:
    """Run an example kernel that has a race on the emulator, and print the race that it found with its source
    lines."""
    from kernelblaster.api import emulate

    task, name = RACY
    file = _examples_folder() / name
    with show_status(False) as progress:
        progress("running it on the PTX machine, every access watched")
        outcome = emulate(task, file).outcome
    assert not isinstance(outcome, Verification), "the race was not found"
    _print(f"{outcome.kind}: {getattr(outcome, 'reason', '')}", style="red")
    race = next(line for line in getattr(outcome, "evidence", "").splitlines() if line.startswith("race "))
    _print(race, hang=2)
    for number, text in enumerate(file.read_text().splitlines(), 1):
        if re.search(rf"line {number}\b", race):
            _print(f"  {number:3} | {text.strip()}", style="bold")


def _search(task: str, folder: Path, device: DeviceName) -> "OptimizeResult":
    """`optimize` with a small budget, in the demo's own folders, with a status line; through a pipe, with a
    line for each step."""
    from kernelblaster.api import Progress, optimize
    from kernelblaster.api.optimizing import step_line

    budget = Search(iterations=1, rollouts=1, evaluations=BUDGETS[task])
    with show_status(False) as progress:
        progress("judging the first candidate")

        def on_step(now: Progress) -> None:
            progress(f"{now.evaluations} of {BUDGETS[task]} candidates judged; {now.technique}")
            if not out.is_terminal:
                _print(step_line(now))

        return optimize(
            task,
            device=device,
            budget=budget,
            knowledge=folder / "knowledge.db",
            runs=folder / "runs",
            on_step=on_step,
        )


def _path_to_best(result: "OptimizeResult") -> list[Step]:
    """The steps by which the search got from its first candidate to the best, in order; empty if the first is
    the best."""
    path: list[Step] = []
    best, by_child = result.candidate.code, {step.child: step for step in reversed(result.trajectory)}
    while best in by_child and len(path) < len(result.trajectory):
        path.insert(0, by_child[best])
        best = path[0].parent
    return path


def _sources(result: "OptimizeResult") -> dict[str, str]:
    """The CUDA source of every candidate of a search by its code (a hash), in the order of judging."""
    with open_run(result.run.parent, result.run) as run:
        history = History(run)
        return {judged.code: history.source_of(judged) for judged in history.judged}


def _needed(result: "OptimizeResult") -> int:
    """How many candidates the search had judged when it found the best one, the best one included."""
    return list(_sources(result)).index(result.candidate.code) + 1


def _show_speed(task: str, result: "OptimizeResult") -> None:
    timing = result.timing
    speedup, candidate, baseline, floor = (
        _marked(figure, result.modelled)
        for figure in (
            f"{result.speedup:.1f}x",
            f"{timing.candidate_us:.0f} us",
            f"{timing.baseline_us:.0f} us",
            f"{timing.floor_us:.0f} us",
        )
    )
    _print(
        f"{speedup} over eager PyTorch: {candidate} instead of {baseline} on {result.device}; at least "
        f"{floor} are needed to move the bytes.",
        style="green",
    )
    eager, compiled = MEASURED[task]
    _print(
        f"On an H200, where a search found a kernel of its own: {eager:.2f}x{NO_BREAK}measured over eager, "
        f"{compiled:.2f}x{NO_BREAK}measured over torch.compile (docs/how-it-compares.md)."
    )


def _show_path(result: "OptimizeResult", folder: Path) -> None:
    """Prints the steps by which the search `result` got to its best candidate: the performance state, the
    technique, its expected and its actual speedup. `folder` has the knowledge base that describes the
    techniques."""
    with KnowledgeBase(folder.absolute() / "knowledge.db") as knowledge:
        content = knowledge.content()
    for number, step in enumerate(_path_to_best(result), 1):
        bound = content.states[content.resolve(step.state)].state.description
        _print(f"{number}. {step.state}: {bound}", hang=3)
        _print(f"   {step.technique}: {_described(content, step.technique)}", hang=5)
        _print(f"     expected {_expected(step, result)}, got {_gained(step, result)}")


def _expected(step: Step, result: "OptimizeResult") -> str:
    """The speedup that the knowledge base expected of a step, as text, marked as modelled if the times of the
    search (`result`) are."""
    return _marked(f"{step.predicted:.2f}x", result.modelled)


def _gained(step: Step, result: "OptimizeResult") -> str:
    """What a step brought, as text: its speedup (marked if modelled), or the kind of failure."""
    return step.failure or _marked(f"{step.speedup:.2f}x", result.modelled)


def _marked(figure: str, modelled: bool) -> str:
    """A time or speedup as text, with ` modelled` appended if it was not measured; no line break can come
    within."""
    return f"{figure}{kind_text(modelled)}".replace(" ", NO_BREAK)


def _described(content: Content, technique: str) -> str:
    """One sentence on what a technique does: the first one of its description in the knowledge base; empty if
    it has none."""
    known = (entry.description for entry in content.living_entries if entry.technique == technique)
    return next((text for text in known if text), "").split(". ", maxsplit=1)[0]


def _show_difference(result: "OptimizeResult") -> None:
    """Prints how the last step to the best candidate changed its source, as a diff; nothing if the first
    candidate is the best."""
    path, sources = _path_to_best(result), _sources(result)
    if not path:
        return
    step = path[-1]
    before, after = sources[step.parent].splitlines(), sources[step.child].splitlines()
    lines = list(unified_diff(before, after, lineterm="", n=1))[2:]
    _print(f"The last step, {step.technique}, as a difference:")
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in lines[:LINES_SHOWN]:
        out.print(Text("    " + line, style=colours.get(line[:1], "")), no_wrap=True, overflow="ellipsis")
    if len(lines) > LINES_SHOWN:
        _print(f"  ... and {len(lines) - LINES_SHOWN} lines more; all of it is on the page below.")


def _show_transfer(first: "OptimizeResult", second: "OptimizeResult") -> None:
    """Print what the second search took from the first: the recipe (techniques that pay together) that it
    used, if any, and how many candidates that saved."""
    recipe = next((step for step in _path_to_best(second) if is_recipe(step.technique)), None)
    needed = _needed(first)
    if recipe is None:
        _print(f"Its best took {_needed(second)} candidates; {FIRST} had needed {needed}.")
        return
    _print(
        f"Known from {FIRST}: {recipe.technique} pay together. They were tried in one step: "
        f"expected {_expected(recipe, second)} over the plain kernel, got {_gained(recipe, second)}."
    )
    _print(
        f"That is candidate 2; the first task came to them with candidate {needed}. {needed - 2} were saved."
    )


def _show_remains(folder: Path, first: "OptimizeResult") -> None:
    """Writes the demo's last files (the best kernel as a torch module, the report), prints where they are,
    and suggests commands to go on with."""
    module = folder / "cosine_similarity.py"
    first.export(module)
    first.report(folder / "report.html")
    _print_whole(f"page       {folder / 'report.html'}")
    _print_whole(f"export     {module}")
    _print_whole("           a torch module that needs nothing of this")
    _print_whole(f"knowledge  {folder / 'knowledge.db'}")
    _print_title("Go on with")
    if shutil.which("kernelblaster") is None and (activate := Path(sys.prefix, "bin", "activate")).is_file():
        here = activate.relative_to(Path.cwd()) if activate.is_relative_to(Path.cwd()) else activate
        _print_whole(f". {here}")
    for command in (
        "kernelblaster optimize core/level2/scale_mask_softmax --budget 10",
        "kernelblaster optimize my_module.py           # or my_kernel.cu",
        f"kernelblaster kb report --kb {folder / 'knowledge.db'}",
    ):
        _print_whole(command)


def _print_title(title: str, sentence: str = "") -> None:
    out.print(f"\n{title}", style="bold", highlight=False)
    if sentence:
        out.print(sentence, highlight=False)


def _print_whole(command: str) -> None:
    """Print a command or a path in one line, whatever the width, so that it can be copied."""
    out.print(f"  {command}", highlight=False, soft_wrap=True)


def _print(text: str, style: str = "", hang: int = 0) -> None:
    """Prints a paragraph wrapped to the terminal's width; lines after the first are indented by `hang` more
    columns. A figure stays on one line with its unit and whether it is modelled or measured."""
    indents = {"initial_indent": "  ", "subsequent_indent": " " * (2 + hang)}
    whole = re.sub(
        r"(?<=\d) (?=us\b)|(?<=\dx) (?=modelled|measured)|(?<=us) (?=modelled|measured)", NO_BREAK, text
    )
    wrapped = fill(whole, out.width, break_long_words=False, break_on_hyphens=False, **indents)  # type: ignore[arg-type]
    out.print(wrapped.replace(NO_BREAK, " "), style=style, highlight=False, soft_wrap=True)
