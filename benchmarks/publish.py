"""Where a benchmark's table goes."""

from collections.abc import Sequence
from pathlib import Path


def publish(lines: Sequence[str], out: Path | None) -> None:
    """To the terminal, and to a file where one is named."""
    text = "\n".join(lines) + "\n"
    if out:
        out.write_text(text)
    print(text)
