"""Python's garbage collector at the start of a process. Importing PyTorch makes 350,000 objects, hardly any
of them garbage; looking through them again and again takes a fifth of the time until the first task is
loaded."""

import gc

AT_START = 200_000  # new objects between two passes; usually 700, which is hundreds of passes
_usual: list[tuple[int, int, int]] = []


def collect_rarely() -> None:
    """Makes Python's garbage collector run rarely, after every 200,000 new objects (AT_START) instead of 700,
    until `collect_as_usual` is called. Only for processes of KernelBlaster itself that are about to import
    PyTorch, not for a user's program that imports this package."""
    if not _usual:
        _usual.append(gc.get_threshold())
        gc.set_threshold(AT_START, *_usual[0][1:])


def collect_as_usual() -> None:
    """Undoes `collect_rarely`: Python's garbage collector runs as often as before. Objects that exist now,
    mostly those of imported modules, are excluded from collection for good. Does nothing if `collect_rarely`
    was not called before."""
    if _usual:
        gc.freeze()
        gc.set_threshold(*_usual.pop())
