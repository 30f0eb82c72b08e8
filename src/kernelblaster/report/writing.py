"""Reads the subjects of a report and writes it: the HTML page, and other formats beside it."""

import time
from collections.abc import Collection, Sequence
from pathlib import Path

from kernelblaster.errors import KernelBlasterError
from kernelblaster.report.bench_page import bench_page
from kernelblaster.report.contents import Contents, contents_of
from kernelblaster.report.csv_markdown import csv_of, markdown_of
from kernelblaster.report.png import save_png
from kernelblaster.report.reading import read_subjects
from kernelblaster.report.rendering import draw_file
from kernelblaster.report.run.page import run_page


def read(names: Sequence[str], runs: Path, benches: Path) -> list[Contents]:
    """Returns the contents of one report for each bench that `names` stand for, and of one for all runs
    together. A name is a folder (of a bench, a run, or of runs) or the unique beginning of a name in the
    folders `benches` or `runs`, which are the user's own. Raises StoreError if a name stands for nothing, or
    for an ablation."""
    return [contents_of(subject) for subject in read_subjects(names, runs, benches)]


def write(contents: Sequence[Contents], to: Path, also: Collection[str] = ()) -> list[Path]:
    """Writes the HTML page of the reports `contents` to `to`, and the formats in `also` (`markdown`, `csv`,
    `svg`, `png`) beside it; returns the files written, the page first."""
    files = [write_text(to, _page(contents, to.parent, time.strftime("on %Y-%m-%d")))]
    for number, one in enumerate(contents):
        stem = to.stem if len(contents) == 1 else f"{to.stem}-{number + 1}"
        figures = [file for kind in ("svg", "png") if kind in also for file in _figures(one, to, stem, kind)]
        files += figures
        shown = [file.relative_to(to.parent).as_posix() for file in figures if file.suffix == ".svg"]
        if "markdown" in also:
            files.append(write_text(to.with_name(f"{stem}.md"), markdown_of(one, shown)))
        if "csv" in also:
            files.append(write_text(to.with_name(f"{stem}.csv"), csv_of(one)))
    return files


def _page(contents: Sequence[Contents], folder: Path, made: str) -> str:
    """The HTML page of a report: a single run of `optimize` has a page of its own, everything else gets the
    page of a bench. `folder` is where it will be, `made` a text on when or how it was made."""
    only = contents[0].subject.only_run if len(contents) == 1 else None
    return bench_page(contents, made) if only is None else run_page(only, folder, made)


def _figures(one: Contents, to: Path, stem: str, kind: str) -> list[Path]:
    """Writes every figure of the report to a file of the given `kind` (svg or png), in a folder beside the
    page, `to`; `stem` begins that folder's name. Returns the files."""
    folder = to.with_name(f"{stem}-figures")
    folder.mkdir(parents=True, exist_ok=True)
    drawings = []
    for chart in one.charts:
        file = folder / f"{chart.name}.{kind}"
        if kind == "svg":
            write_text(file, draw_file(chart) + "\n")
        else:
            save_png(chart, file)
        drawings.append(file)
    return drawings


def write_text(path: Path, text: str) -> Path:
    """Writes `text` to the file `path` as UTF-8, and creates its folder if necessary; returns the path.
    Raises KernelBlasterError if that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise KernelBlasterError(f"{path}: cannot be written: {error.strerror or error}.") from error
    return path
