"""`explain_resuming`: tells the user how to continue a long command that was interrupted or failed."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from kernelblaster.cli.start import STOPPED
from kernelblaster.cli.terminal import Terminal
from kernelblaster.errors import DeviceLost, KnowledgeError, NoDevice, Shortage, StoreError
from kernelblaster.models.failures import ModelError


@contextmanager
def explain_resuming(how: str, kept: str = "what was done is kept") -> Iterator[None]:
    """A context for a long command that can be continued by the command `how`, such as "bench --folder
    FOLDER". If the command fails without losing recorded work (device, disk, model server), "Go on with:
    kernelblaster `how`" is appended to the error's message. On Ctrl-C, "stopped; `kept`. Go on with:
    kernelblaster `how`" is printed, and the command exits with code 130. `kept` says what was saved."""
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
