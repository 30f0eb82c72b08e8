"""Where a benchmark's table goes."""

from collections.abc import Sequence
from pathlib import Path


def publish(lines: Sequence[str], out: Path | None) -> None:
    """To the terminal, and to a file where one is named."""
    keep(lines, out)
    print("\n".join(lines) + "\n", flush=True)


def keep(lines: Sequence[str], out: Path | None) -> None:
    """To a file, if one is named: whole at any moment, also where this process is killed meanwhile. For
    tables that grow."""
    if out:
        whole = out.with_suffix(".new")
        whole.write_text("\n".join(lines) + "\n")
        whole.replace(out)
