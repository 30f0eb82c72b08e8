"""The colours of pages and figures, each as a pair for light and dark mode."""

import re

PALETTE = {
    "paper": ("#f6f7f9", "#0f131a"),
    "card": ("#ffffff", "#171d27"),
    "ink": ("#1d2430", "#e8ebf1"),
    "soft": ("#5d6778", "#9aa4b5"),
    "line": ("#e1e5ec", "#2b3341"),
    "tint": ("#eef2f8", "#1e2632"),
    "link": ("#2257b0", "#8ab8ff"),
    "c1": ("#2f6fd0", "#6ea8ff"),
    "c2": ("#c4650a", "#f2a154"),
    "c3": ("#178a5e", "#4fc794"),
    "c4": ("#8250df", "#b794f6"),
    "c5": ("#c2347a", "#f07ab0"),
    "c6": ("#6b7280", "#9aa4b5"),
    "good": ("#12784f", "#4fc794"),
    "idle": ("#8a6500", "#e0c04f"),
    "bad": ("#c23636", "#f07a7a"),
    "added": ("#e3f5ea", "#143325"),
    "removed": ("#fde8e8", "#3a1c20"),
    "keyword": ("#8a3ffc", "#c4a1ff"),
    "type": ("#0b6e99", "#6fc7e8"),
    "string": ("#22733a", "#8fd6a4"),
    "comment": ("#667085", "#8b95a7"),
    "figure": ("#b0480b", "#f2b07a"),
    "call": ("#2257b0", "#8ab8ff"),
}
IN_FIGURES = ("card", "ink", "soft", "line", *(f"c{n}" for n in range(1, 7)), "good", "idle", "bad")


def page_colours() -> str:
    """Returns a style sheet for a page that defines every colour as a CSS variable (`--ink`), with a value
    for light and one for dark mode; the browser takes that of the page's `color-scheme`."""
    pairs = (f"--{name}:light-dark({light},{dark})" for name, (light, dark) in PALETTE.items())
    return f":root{{{';'.join(pairs)}}}\n"


def figure_colours() -> str:
    """Returns a style sheet for an SVG file that is shown by itself. It defines the colours as CSS variables,
    light or dark as the viewer prefers."""
    light, dark = (";".join(f"--{name}:{PALETTE[name][side]}" for name in IN_FIGURES) for side in (0, 1))
    return f"svg{{{light};background:var(--card)}}\n@media(prefers-color-scheme:dark){{svg{{{dark}}}}}\n"


def resolved(style: str) -> str:
    """A style sheet with its variables replaced by the light colours, for programs that do not support
    variables."""
    return re.sub(r"var\(--(\w+)\)", lambda match: PALETTE[match[1]][0], style)
