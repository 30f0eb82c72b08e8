"""Figures as PNG: the SVG drawing, rasterized by resvg, an optional dependency that is imported only here."""

from pathlib import Path

from kernelblaster.errors import KernelBlasterError
from kernelblaster.report.chart import Chart
from kernelblaster.report.rendering import draw_file

PIXELS = 1280  # width


def save_png(chart: Chart, path: Path) -> None:
    """Draws a figure and writes it to `path` as a PNG image. Raises KernelBlasterError if resvg, which turns
    SVG into pixels, is not installed."""
    try:
        from resvg_py import svg_to_bytes
    except ImportError as error:
        raise KernelBlasterError(
            "PNG figures need a rasterizer: pip install 'kernelblaster[figures]'. SVG figures need nothing."
        ) from error
    svg = draw_file(chart, plain=True)
    path.write_bytes(svg_to_bytes(svg_string=svg, width=PIXELS, background="#ffffff"))
