"""Render pages from templates. All values are escaped; control characters are shown as escapes."""

import json
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from kernelblaster.bench.tables import percent, times
from kernelblaster.plain_text import printable
from kernelblaster.report.chart import Chart
from kernelblaster.report.svg import PAINT, draw_svg

TEMPLATES = Path(__file__).parent / "templates"


def render_page(template: str, **values: Any) -> str:
    """The HTML of a template of this package with these values, which are escaped unless they are Markup."""
    return _environment.get_template(template).render(**values)


def _text(value: Any) -> Any:
    """Jinja's `finalize`: control characters in texts are shown as escapes, since names, prompts and sources
    are untrusted."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _drawn(chart: Chart) -> Markup:
    return Markup(draw_svg(chart))


def _part(name: str) -> Markup:
    """A style sheet or script from the templates folder, unescaped."""
    return Markup((TEMPLATES / name).read_text())


def _as_json(data: Any) -> Markup:
    """JSON for a script element, escaped so that it cannot end the element."""
    return Markup(json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))


_environment = Environment(
    loader=FileSystemLoader(TEMPLATES),
    undefined=StrictUndefined,
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    finalize=_text,
)
_environment.filters |= {"drawn": _drawn, "json": _as_json, "times": times, "percent": percent}
_environment.globals |= {"part": _part, "paint": Markup(PAINT)}
