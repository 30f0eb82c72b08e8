"""Whatever stops a long command says how to go on with it."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from kernelblaster.cli.terminal import Terminal
from kernelblaster.errors import DeviceLost, KnowledgeError, NoDevice, Shortage, StoreError
from kernelblaster.models.failures import ModelError


@contextmanager
def going_on(how: str, kept: str = "what was done is kept") -> Iterator[None]:
    """`how` is the command; `kept` says what an interruption leaves."""
    how = f"Go on with: kernelblaster {how}"
    try:
        yield
    except (DeviceLost, NoDevice, Shortage, KnowledgeError, StoreError) as error:
        raise type(error)(f"{error} {how}") from error
    except ModelError as error:
        raise ModelError(f"{error} {how}") from error
    except KeyboardInterrupt:
        Terminal(stderr=True).print(f"stopped; {kept}. {how}", highlight=False, soft_wrap=True)
        raise typer.Exit(130) from None
