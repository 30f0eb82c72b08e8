"""Renders the dashboard's pages, and parts of pages, from the templates of this package, which build on the
templates of reports."""

import json
import time
from pathlib import Path
from typing import Any

from markupsafe import Markup

from kernelblaster.quantities import kind_text
from kernelblaster.report.palette import page_colours
from kernelblaster.report.rendering import TEMPLATES, make_environment

HERE = Path(__file__).parent
SHARED = ("page.css", "figure.css", "tips.js", "tables.js", "source.js", "run.js")


def render(template: str, **values: Any) -> str:
    """Fills a template of the dashboard with values and returns the HTML. Values are HTML-escaped unless they
    are Markup."""
    return _environment.get_template(template).render(**values)


def render_macro(template: str, macro: str, *values: Any, **named: Any) -> Markup:
    """Returns the HTML of a part of a page: calls the macro with this name in a template file, with the given
    values."""
    return Markup(getattr(_module(template), macro)(*values, **named))


def load_templates() -> None:
    """Compiles the templates of the page that lists runs and of a run's page, so that the first request need
    not wait for that."""
    for name in ("runs.html", "run.html", "lines.html", "run_parts.html", "components.html"):
        _environment.get_template(name)


def static_files() -> dict[str, tuple[bytes, str]]:
    """Returns the dashboard's style sheets and scripts by file name, as (content, content type)."""
    kinds = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
    files = [TEMPLATES / name for name in SHARED] + sorted((HERE / "static").iterdir())
    found = {file.name: (file.read_bytes(), kinds[file.suffix]) for file in files}
    return found | {"colours.css": (page_colours().encode(), "text/css")}


def time_ago(at: float | None) -> str:
    """Returns the time `at` (seconds since 1970) as text, "2026-01-31 17:05"; "" for None. A script of the
    page replaces the text by how long ago that is."""
    return "" if at is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def duration(seconds: float) -> str:
    """Returns a number of seconds as text: "42 s", "5 min" from two minutes on, "3.2 h" from two hours on."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


_environment = make_environment(HERE / "templates")
_environment.filters |= {"ago": time_ago, "duration": duration, "kind": kind_text, "jsontext": json.dumps}
_modules: dict[str, Any] = {}


def _module(template: str) -> Any:
    """The macros that a template defines, loaded at the first call and then kept."""
    if template not in _modules:
        _modules[template] = _environment.get_template(template).module
    return _modules[template]
