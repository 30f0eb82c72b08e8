"""`explain_resuming`: tells how to continue a long command that was interrupted or failed."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from kernelblaster.cli.start import STOPPED
from kernelblaster.cli.terminal import Terminal
from kernelblaster.errors import DeviceLost, KnowledgeError, NoDevice, Shortage, StoreError
from kernelblaster.models.failures import ModelError


@contextmanager
def explain_resuming(how: str, kept: str = "what was done is kept") -> Iterator[None]:
    """Append "Go on with: kernelblaster `how`" to errors that do not lose recorded work (device, disk, model
    server). On Ctrl-C, print it after `kept`, which says what was saved, and exit with code 130."""
    how = f"Go on with: kernelblaster {how}"
    try:
        yield
    except (DeviceLost, NoDevice, Shortage, KnowledgeError, StoreError) as error:
        raise type(error)(f"{error} {how}") from error
    except ModelError as error:
        raise ModelError(f"{error} {how}") from error
    except KeyboardInterrupt:
        Terminal(stderr=True).print(f"stopped; {kept}. {how}", highlight=False, soft_wrap=True)
        raise typer.Exit(STOPPED) from None
