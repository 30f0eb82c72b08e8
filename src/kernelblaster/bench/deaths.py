"""What is said of a task whose code ended the process in which it ran."""

import signal

from kernelblaster.devices.player_process import ended


def death(code: int) -> str:
    """By the exit code of the second process, negative: a signal."""
    hint = " (where it does not do so itself, memory may have run out)" if code == -signal.SIGKILL else ""
    return f"its code ended the process in which it ran, and once more alone: it {ended(code)}{hint}."
