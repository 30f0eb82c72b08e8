"""Python's garbage collector at the start of a process. Importing PyTorch makes 350,000 objects, hardly any
of them garbage; looking through them again and again takes a fifth of the time until the first task is
loaded."""

import gc

AT_START = 200_000  # new objects between two passes; usually 700, which is hundreds of passes
_usual: list[tuple[int, int, int]] = []


def collect_rarely() -> None:
    """From now on, and until `collect_as_usual`, look for garbage rarely. For a process of our own that is
    about to import PyTorch; not for a program that imports this package."""
    if not _usual:
        _usual.append(gc.get_threshold())
        gc.set_threshold(AT_START, *_usual[0][1:])


def collect_as_usual() -> None:
    """Ends what `collect_rarely` began: garbage is looked for as often as usual, but not among the objects
    that there are now, which modules consist of. Does nothing unless that was called before."""
    if _usual:
        gc.freeze()
        gc.set_threshold(*_usual.pop())
