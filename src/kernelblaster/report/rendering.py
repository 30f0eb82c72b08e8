"""Render pages, parts of pages and figures from templates. All values are escaped; control characters are
shown as escapes."""

import json
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from kernelblaster.plain_text import printable
from kernelblaster.quantities import percent, times
from kernelblaster.report.chart import Chart
from kernelblaster.report.drawing import draw
from kernelblaster.report.palette import figure_colours, page_colours, resolved

TEMPLATES = Path(__file__).parent / "templates"


def render_page(template: str, **values: Any) -> str:
    """Fills a template of this package with `values` and returns the HTML. Values are HTML-escaped, except
    those that are HTML already (of type Markup)."""
    return _environment.get_template(template).render(**values)


def draw_svg(chart: Chart) -> Markup:
    """Returns a figure as an `<svg>` element for a page. The page's style sheet must contain figure.css and
    the colours (`page_colours`)."""
    return Markup(render_page("figure.svg", drawing=draw(chart), style=None))


def draw_file(chart: Chart, *, plain: bool = False) -> str:
    """Returns a figure as the text of an SVG file. With `plain`, the light colours are written into it, for
    programs that do not support CSS variables."""
    style = read_part("figure.css")
    style = Markup(resolved(style)) if plain else Markup(figure_colours()) + style
    return render_page("figure.svg", drawing=draw(chart), style=style)


def read_part(name: str) -> Markup:
    """Returns the text of `name`, a style sheet or a script in the templates folder, to be put into a page as
    it is."""
    return Markup((TEMPLATES / name).read_text())


def make_environment(*folders: Path) -> Environment:
    """Returns a Jinja environment for templates in these folders and, after them, those of this package."""
    environment = Environment(
        loader=FileSystemLoader([*folders, TEMPLATES]),
        undefined=StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_text,
    )
    environment.filters |= {"drawn": draw_svg, "json": _as_json, "times": times, "percent": percent}
    environment.filters |= {"broken": _broken}
    environment.globals |= {"part": read_part, "colours": Markup(page_colours())}
    return environment


def _text(value: Any) -> Any:
    """What jinja calls on each value before it writes it: control characters in texts are shown as escapes,
    since names, prompts and sources are untrusted."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _as_json(data: Any) -> Markup:
    """Data as JSON to put inside a `<script>` element of a page; no text in it can end the element."""
    return Markup(json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))


def _broken(name: str) -> Markup:
    """A long name as HTML in which a line may break after each `/`, `_` and `+`."""
    shown = str(Markup.escape(printable(str(name))))
    for mark in "/_+":
        shown = shown.replace(mark, f"{mark}<wbr>")
    return Markup(shown)


_environment = make_environment()
