"""The token of a fleet: a secret that every node and every command must have, in a file of its user."""

import secrets
from pathlib import Path

from kernelblaster.errors import KernelBlasterError
from kernelblaster.settings import settings
from kernelblaster.store.files import write_whole

LEAST = 32  # letters, so that it cannot be guessed


def token_file(given: Path | None = None) -> Path:
    """The path of the file with the fleet's secret token: `given` if the user names one, else the one in the
    user's data folder."""
    return given or settings().data / "fleet" / "token"


def make_token(path: Path) -> bool:
    """Write a new random token into the file `path`, which only its owner can read. If the file is there, it
    is kept. Returns whether a new one was written."""
    if path.exists():
        return False
    write_whole(path, secrets.token_hex(LEAST))
    return True


def read_token(path: Path) -> str | None:
    """Returns the token in the file `path`; None if there is no such file. Raises KernelBlasterError if
    others can read the file, or it holds no token."""
    try:
        mode, text = path.stat().st_mode, path.read_text().strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise KernelBlasterError(f"{path}: cannot be read: {error.strerror or error}.") from error
    if mode & 0o077:
        raise KernelBlasterError(f"{path}: others can read this token; chmod 600 {path}")
    if len(text) < LEAST or not text.isalnum():
        raise KernelBlasterError(f"{path}: holds no token: {LEAST} letters and digits or more are one.")
    return text
