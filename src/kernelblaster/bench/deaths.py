"""`death`: the message for a task whose code crashed the process in which it ran (by a signal, or by ending
it)."""

import signal

from kernelblaster.devices.player_process import ended


def death(code: int) -> str:
    """Returns the sentence that reports a task whose code crashed its process twice. `code` is the exit code
    of the second crash; a negative one is the number of the signal that ended the process."""
    hint = " (where it does not do so itself, memory may have run out)" if code == -signal.SIGKILL else ""
    return f"its code ended the process in which it ran, and once more alone: it {ended(code)}{hint}."
