"""Pages from their templates: everything is escaped, and control characters are shown as escapes."""

import json
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from kernelblaster.bench.tables import percent, times
from kernelblaster.plain_text import printable
from kernelblaster.report.chart import Chart
from kernelblaster.report.svg import PAINT, drawn

TEMPLATES = Path(__file__).parent / "templates"


def rendered(template: str, **values: Any) -> str:
    """The page that a template makes of these values."""
    return _environment.get_template(template).render(**values)


def _text(value: Any) -> Any:
    """What others have written stays text: names, prompts and sources may hold anything."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _drawn(chart: Chart) -> Markup:
    return Markup(drawn(chart))


def _part(name: str) -> Markup:
    """A style sheet or a script of ours, whole."""
    return Markup((TEMPLATES / name).read_text())


def _as_json(data: Any) -> Markup:
    """As the content of a script element: what could end it is written otherwise."""
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
